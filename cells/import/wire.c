/* protobuf-c has no recursion limit and takes up to 84 times the size of a message. So the bytes
 * are walked first, iteratively, along the generated descriptors: only what the descriptors call a
 * message is entered, as protobuf-c does, and everything that could hurt is refused here. Then
 * protobuf-c unpacks into an arena whose budget ends it early when a message of many tiny parts
 * asks for too much. Cost: one pass over the tags; data bytes are skipped. */
#include "cells/import/wire.h"

#include "base/assert.h"

#include <stdbool.h>

enum wire_type { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_GROUP, WIRE_GROUP_END, WIRE_FIXED32 };

/* A message that is being walked. */
struct level {
    const ProtobufCMessageDescriptor *type;
    size_t end;       /* offset of the first byte behind it */
    uint64_t present; /* bit per descriptor field: singular sub-messages seen */
};

struct walk {
    const uint8_t *bytes;
    size_t at;
    uint32_t depth; /* levels in use */
    uint32_t fields;
    struct level levels[CELL__WIRE_DEPTH_MAX];
    struct base_error *error;
};

static enum base_status bad(const struct walk *walk, const char *what)
{
    return base_fail(walk->error, BASE_INVALID_ARGUMENT, "not a valid ONNX file: %s at byte %zu",
                     what, walk->at);
}

static bool read_varint(struct walk *walk, size_t end, uint64_t *out)
{
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        if (walk->at >= end) {
            return false;
        }
        uint8_t byte = walk->bytes[walk->at++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Number of the field in the descriptor's own order, or -1 when we do not know it. */
static int32_t field_index(const ProtobufCMessageDescriptor *type, uint32_t number)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, number);
    return field == NULL ? -1 : (int32_t)(field - type->fields);
}

/* A length-delimited field whose `length` bytes start at walk->at: skipped or entered. */
static enum base_status walk_bytes(struct walk *walk, uint32_t number, size_t length)
{
    struct level *level = &walk->levels[walk->depth - 1];
    int32_t index = field_index(level->type, number);
    if (index < 0 || level->type->fields[index].type != PROTOBUF_C_TYPE_MESSAGE) {
        walk->at += length;
        return BASE_OK;
    }
    const ProtobufCFieldDescriptor *field = &level->type->fields[index];
    base_assert(index < 64);
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        uint64_t bit = UINT64_C(1) << (uint32_t)index;
        if ((level->present & bit) != 0) {
            return bad(walk, "a part is given twice");
        }
        level->present |= bit;
    }
    if (walk->depth == CELL__WIRE_DEPTH_MAX) {
        return bad(walk, "parts are nested too deeply");
    }
    walk->levels[walk->depth++] =
        (struct level){.type = field->descriptor, .end = walk->at + length};
    return BASE_OK;
}

static enum base_status walk_field(struct walk *walk)
{
    size_t end = walk->levels[walk->depth - 1].end;
    uint64_t tag = 0;
    uint64_t value = 0;
    if (!read_varint(walk, end, &tag) || tag >> 3 == 0 || tag > UINT32_MAX) {
        return bad(walk, "a malformed field");
    }
    if (++walk->fields > CELL__WIRE_FIELDS_MAX) {
        return bad(walk, "too many fields");
    }
    switch ((enum wire_type)(tag & 7)) {
    case WIRE_VARINT:
        return read_varint(walk, end, &value) ? BASE_OK : bad(walk, "a malformed number");
    case WIRE_FIXED64:
        value = 8;
        break;
    case WIRE_FIXED32:
        value = 4;
        break;
    case WIRE_BYTES:
        if (!read_varint(walk, end, &value)) {
            return bad(walk, "a malformed length");
        }
        break;
    case WIRE_GROUP:
    case WIRE_GROUP_END:
    default:
        return bad(walk, "a field of an unknown kind");
    }
    if (value > end - walk->at) {
        return bad(walk, "a part longer than what holds it");
    }
    if ((tag & 7) == WIRE_BYTES) {
        return walk_bytes(walk, (uint32_t)(tag >> 3), (size_t)value);
    }
    walk->at += (size_t)value;
    return BASE_OK;
}

enum base_status cell__wire_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                  size_t length, struct base_error *error)
{
    struct walk walk = {.bytes = bytes, .depth = 1, .error = error};
    walk.levels[0] = (struct level){.type = type, .end = length};
    while (walk.depth > 0) {
        if (walk.at == walk.levels[walk.depth - 1].end) {
            walk.depth--;
            continue;
        }
        BASE_TRY(walk_field(&walk));
    }
    base_assert(walk.at == length);
    return BASE_OK;
}

/* protobuf-c's allocator over an arena: nothing is freed before the arena is. */
struct wire_memory {
    struct base_arena *arena;
    bool is_spent;
};

static void *memory_alloc(void *data, size_t size)
{
    struct wire_memory *memory = data;
    void *block = base_arena_alloc(memory->arena, size);
    memory->is_spent = memory->is_spent || block == NULL;
    return block;
}

static void memory_free(void *data, void *block)
{
    (void)data;
    (void)block;
}

enum base_status cell__wire_unpack(struct base_arena *arena, const uint8_t *bytes, size_t length,
                                   Onnx__ModelProto **out, struct base_error *error)
{
    BASE_TRY(cell__wire_check(&onnx__model_proto__descriptor, bytes, length, error));
    struct wire_memory memory = {.arena = arena};
    ProtobufCAllocator allocator = {
        .alloc = memory_alloc, .free = memory_free, .allocator_data = &memory};
    *out = onnx__model_proto__unpack(&allocator, length, bytes);
    if (*out != NULL) {
        return BASE_OK;
    }
    if (memory.is_spent) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED,
                         "the model of %zu bytes has too many small parts to be unpacked", length);
    }
    return base_fail(error, BASE_INVALID_ARGUMENT, "not a valid ONNX file");
}
