/* Our .proto files, looked up and told.
 *
 * protoc-c writes them as a FileDescriptorSet when the server is built. Its runtime descriptors, by
 * which messages are packed, would not do: they say nothing of maps, of syntax, of a file's
 * imports, or which way a method streams.
 *
 * Nothing is unpacked or kept. A question is answered by walking the bytes, some 20 KB, with the
 * reader of all other messages; and what the table of methods does not have is passed over on the
 * way, so that nobody is told of a method that answers UNIMPLEMENTED.
 *
 * The bytes are our own: where they are not as they should be, the build is broken. */
#include "server/grpc/catalog.h"

#include "base/assert.h"
#include "server/grpc/methods.h"

#include <string.h>

/* Made by the Makefile. */
extern const unsigned char proto_descriptors[];
extern const size_t proto_descriptors_bytes;

/* Field numbers of google/protobuf/descriptor.proto. */
enum {
    SET_FILE = 1,
    FILE_PACKAGE = 2,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    MESSAGE_FIELD = 2,
    MESSAGE_MESSAGE = 3,
    MESSAGE_ENUM = 4,
    MESSAGE_ONEOF = 8,
    ENUM_VALUE = 2,
    SERVICE_METHOD = 2,
    NAME = 1, /* of each of them */
};

static bool next_field(struct srv_grpc_wire *wire, struct srv_grpc_field *field)
{
    bool is_field = srv_grpc_wire_next(wire, field);
    base_assert(!wire->broken);
    return is_field;
}

/* The first field of that number, which is there. */
static struct srv_grpc_bytes bytes_of(struct srv_grpc_bytes message, uint32_t number)
{
    struct srv_grpc_wire wire = srv_grpc_wire_open(message);
    struct srv_grpc_field field;
    do {
        bool is_field = next_field(&wire, &field);
        base_assert(is_field);
    } while (field.number != number);
    base_assert(field.type == SRV_GRPC_BYTES);
    return field.bytes;
}

static struct srv_grpc_wire open_set(void)
{
    return srv_grpc_wire_open((struct srv_grpc_bytes){proto_descriptors, proto_descriptors_bytes});
}

static bool next_file(struct srv_grpc_wire *files, struct srv_grpc_bytes *file)
{
    struct srv_grpc_field field;
    if (!next_field(files, &field)) {
        return false;
    }
    base_assert(field.number == SET_FILE && field.type == SRV_GRPC_BYTES);
    *file = field.bytes;
    return true;
}

static bool equal(struct srv_grpc_bytes a, struct srv_grpc_bytes b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

/* ---- Methods that work ---- */

/* Whether *text begins with prefix, which is then cut off. */
static bool skip(const char **text, struct srv_grpc_bytes prefix)
{
    if (strncmp(*text, (const char *)prefix.data, prefix.length) != 0) {
        return false;
    }
    *text += prefix.length;
    return true;
}

/* Whether path is "/package.service/method". */
static bool is_path_of(const char *path, struct srv_grpc_bytes package,
                       struct srv_grpc_bytes service, struct srv_grpc_bytes method)
{
    return *path++ == '/' && skip(&path, package) && *path++ == '.' && skip(&path, service) &&
           *path++ == '/' && skip(&path, method) && *path == 0;
}

/* A method's descriptor of a service's. */
static bool works(struct srv_grpc_bytes package, struct srv_grpc_bytes service,
                  struct srv_grpc_bytes method)
{
    struct srv_grpc_bytes service_name = bytes_of(service, NAME);
    struct srv_grpc_bytes method_name = bytes_of(method, NAME);
    for (uint32_t i = 0; i < SRV_GRPC__METHODS; i++) {
        if (is_path_of(srv_grpc__methods[i].path, package, service_name, method_name)) {
            return true;
        }
    }
    return false;
}

/* ---- Descriptors as they are told ---- */

/* out may be NULL. Returns length. */
static size_t put(uint8_t *out, const uint8_t *from, size_t length)
{
    if (out != NULL) {
        memcpy(out, from, length);
    }
    return length;
}

static uint8_t *behind(uint8_t *out, size_t bytes)
{
    return out == NULL ? NULL : out + bytes;
}

/* A ServiceDescriptorProto without the methods that do not work. */
static size_t describe_service(struct srv_grpc_bytes package, struct srv_grpc_bytes service,
                               uint8_t *out)
{
    size_t bytes = 0;
    struct srv_grpc_wire wire = srv_grpc_wire_open(service);
    struct srv_grpc_field field;
    for (const uint8_t *at = wire.at; next_field(&wire, &field); at = wire.at) {
        if (field.number != SERVICE_METHOD || works(package, service, field.bytes)) {
            bytes += put(behind(out, bytes), at, (size_t)(wire.at - at));
        }
    }
    return bytes;
}

size_t srv_grpc__catalog_describe(struct srv_grpc_bytes file, uint8_t *out)
{
    struct srv_grpc_bytes package = bytes_of(file, FILE_PACKAGE);
    size_t bytes = 0;
    struct srv_grpc_wire wire = srv_grpc_wire_open(file);
    struct srv_grpc_field field;
    for (const uint8_t *at = wire.at; next_field(&wire, &field); at = wire.at) {
        if (field.number != FILE_SERVICE) {
            bytes += put(behind(out, bytes), at, (size_t)(wire.at - at));
            continue;
        }
        size_t length = describe_service(package, field.bytes, NULL);
        size_t framed = srv_grpc_field_bytes(length);
        if (out != NULL) {
            uint8_t *to = srv_grpc_put_tag(out + bytes, FILE_SERVICE, SRV_GRPC_BYTES);
            describe_service(package, field.bytes, srv_grpc_put_varint(to, length));
        }
        bytes += framed;
    }
    return bytes;
}

/* ---- Services ---- */

static bool has_methods(struct srv_grpc_bytes package, struct srv_grpc_bytes service)
{
    struct srv_grpc_wire wire = srv_grpc_wire_open(service);
    struct srv_grpc_field field;
    while (next_field(&wire, &field)) {
        if (field.number == SERVICE_METHOD && works(package, service, field.bytes)) {
            return true;
        }
    }
    return false;
}

struct srv_grpc__services srv_grpc__catalog_services(void)
{
    return (struct srv_grpc__services){.files = open_set()};
}

static bool next_service_of_file(struct srv_grpc__services *walk, struct srv_grpc_bytes *service)
{
    struct srv_grpc_field field;
    while (next_field(&walk->services, &field)) {
        if (field.number == FILE_SERVICE && has_methods(walk->package, field.bytes)) {
            *service = field.bytes;
            return true;
        }
    }
    return false;
}

bool srv_grpc__catalog_next_service(struct srv_grpc__services *walk, struct srv_grpc_bytes *package,
                                    struct srv_grpc_bytes *name)
{
    struct srv_grpc_bytes service;
    while (!next_service_of_file(walk, &service)) {
        struct srv_grpc_bytes file;
        if (!next_file(&walk->files, &file)) {
            return false;
        }
        walk->services = srv_grpc_wire_open(file);
        walk->package = bytes_of(file, FILE_PACKAGE);
    }
    *package = walk->package;
    *name = bytes_of(service, NAME);
    return true;
}

/* ---- Names ---- */

enum kind {
    NO_NAME, /* nothing */
    IN_FILE,
    MESSAGE,
    ENUM,
    SERVICE,
    METHOD,
    MEMBER, /* of a message or an enum */
};

/* What a field of a scope's descriptor declares, by its number. */
#define NUMBERS 9u
static const enum kind declared[][NUMBERS] = {
    [IN_FILE] = {[FILE_MESSAGE] = MESSAGE, [FILE_ENUM] = ENUM, [FILE_SERVICE] = SERVICE},
    [MESSAGE] = {[MESSAGE_FIELD] = MEMBER,
                 [MESSAGE_MESSAGE] = MESSAGE,
                 [MESSAGE_ENUM] = ENUM,
                 [MESSAGE_ONEOF] = MEMBER},
    [ENUM] = {[ENUM_VALUE] = MEMBER},
    [SERVICE] = {[SERVICE_METHOD] = METHOD},
};

static enum kind kind_of(enum kind scope, uint32_t number)
{
    base_assert(scope <= SERVICE);
    return number < NUMBERS ? declared[scope][number] : NO_NAME;
}

/* Where a name is looked for. */
struct scope {
    enum kind kind;
    struct srv_grpc_bytes proto;
};

/* What the scope declares under one word. */
static bool find_in(const struct scope *scope, struct srv_grpc_bytes word, struct scope *found)
{
    struct srv_grpc_wire wire = srv_grpc_wire_open(scope->proto);
    struct srv_grpc_field field;
    while (next_field(&wire, &field)) {
        enum kind kind = kind_of(scope->kind, field.number);
        if (kind != NO_NAME && equal(bytes_of(field.bytes, NAME), word)) {
            *found = (struct scope){kind, field.bytes};
            return true;
        }
    }
    return false;
}

/* Whether one of the scope's enums has that value. */
static bool has_value(const struct scope *scope, struct srv_grpc_bytes word)
{
    struct srv_grpc_wire wire = srv_grpc_wire_open(scope->proto);
    struct srv_grpc_field field;
    while (next_field(&wire, &field)) {
        struct scope value;
        if (kind_of(scope->kind, field.number) == ENUM &&
            find_in(&(struct scope){ENUM, field.bytes}, word, &value)) {
            return true;
        }
    }
    return false;
}

/* Cuts the first word, up to a dot, off a name; the dot too. */
static struct srv_grpc_bytes cut_word(struct srv_grpc_bytes *name)
{
    const uint8_t *dot = name->length > 0 ? memchr(name->data, '.', name->length) : NULL;
    struct srv_grpc_bytes word = *name;
    if (dot == NULL) {
        *name = (struct srv_grpc_bytes){NULL, 0};
    } else {
        word.length = (size_t)(dot - name->data);
        *name = (struct srv_grpc_bytes){dot + 1, name->length - word.length - 1};
    }
    return word;
}

/* A name without its package. */
static bool declares(struct srv_grpc_bytes file, struct srv_grpc_bytes package,
                     struct srv_grpc_bytes name)
{
    struct scope scope = {IN_FILE, file};
    for (;;) {
        struct srv_grpc_bytes word = cut_word(&name);
        bool is_last = name.data == NULL;
        struct scope found;
        if (!find_in(&scope, word, &found)) {
            return is_last && has_value(&scope, word);
        }
        if (is_last) {
            return found.kind != METHOD || works(package, scope.proto, found.proto);
        }
        if (found.kind != MESSAGE && found.kind != SERVICE) {
            return false;
        }
        scope = found;
    }
}

bool srv_grpc__catalog_find_file(struct srv_grpc_bytes name, struct srv_grpc_bytes *file)
{
    struct srv_grpc_wire files = open_set();
    while (next_file(&files, file)) {
        if (equal(bytes_of(*file, NAME), name)) {
            return true;
        }
    }
    return false;
}

bool srv_grpc__catalog_find_symbol(struct srv_grpc_bytes name, struct srv_grpc_bytes *file)
{
    struct srv_grpc_wire files = open_set();
    while (next_file(&files, file)) {
        struct srv_grpc_bytes package = bytes_of(*file, FILE_PACKAGE);
        if (name.length > package.length && name.data[package.length] == '.' &&
            memcmp(name.data, package.data, package.length) == 0) {
            struct srv_grpc_bytes rest = {name.data + package.length + 1,
                                          name.length - package.length - 1};
            if (declares(*file, package, rest)) {
                return true;
            }
        }
    }
    return false;
}
