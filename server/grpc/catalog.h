/* What reflection tells: our .proto files as FileDescriptorProtos, with the methods that work and
 * without the others. Static and pure: any thread, no gRPC, no memory. */
#ifndef SERVER_GRPC_CATALOG_H
#define SERVER_GRPC_CATALOG_H

#include "server/grpc/wire.h"

/* A file is passed on as it was compiled, with all methods. false: there is none of that name. */
bool srv_grpc__catalog_find_file(struct srv_grpc_bytes name, struct srv_grpc_bytes *file);

/* The file that declares what has this full name: a service or its method, a message, one of its
 * fields or oneofs, an enum or one of its values, nested ones too. A value stands beside its enum,
 * not in it, as in C. false: no such name, or a method that does not work. */
bool srv_grpc__catalog_find_symbol(struct srv_grpc_bytes name, struct srv_grpc_bytes *file);

/* Writes the file's FileDescriptorProto, or with out NULL nothing. Returns its bytes. */
size_t srv_grpc__catalog_describe(struct srv_grpc_bytes file, uint8_t *out);

/* A walk over the services that have methods. */
struct srv_grpc__services {
    struct srv_grpc_wire files, services; /* what is left of all, and of one file */
    struct srv_grpc_bytes package;        /* of that file */
};

struct srv_grpc__services srv_grpc__catalog_services(void);

/* The next one, "package.name" in parts; false: there is none. */
bool srv_grpc__catalog_next_service(struct srv_grpc__services *walk, struct srv_grpc_bytes *package,
                                    struct srv_grpc_bytes *name);

#endif
