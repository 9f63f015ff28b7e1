/* From the bytes of a file to unpacked ONNX messages, without trusting the bytes. */
#ifndef CELLS_IMPORT_WIRE_H
#define CELLS_IMPORT_WIRE_H

#include "base/arena.h"
#include "base/status.h"

#include "proto/onnx.pb-c.h"

/* Messages inside messages; a graph inside a node costs three levels (attribute, graph, node). */
#define CELL__WIRE_DEPTH_MAX 32u

/* Fields in all messages together; each costs protobuf-c some 40 bytes while it unpacks. */
#define CELL__WIRE_FIELDS_MAX (1u << 22)

/* Walks the wire format without recursion or allocation: tags, lengths inside their message, no
 * groups, depth, counts, no sub-message given twice (protobuf-c would merge it recursively).
 * INVALID_ARGUMENT names the offset. */
enum base_status cell__wire_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                  size_t length, struct base_error *error);

/* Checks, then unpacks a ModelProto into the arena, whose budget bounds what protobuf-c may take.
 * The message lives as long as the arena and must not be freed. RESOURCE_EXHAUSTED, or
 * INVALID_ARGUMENT. */
enum base_status cell__wire_unpack(struct base_arena *arena, const uint8_t *bytes, size_t length,
                                   Onnx__ModelProto **out, struct base_error *error);

#endif
