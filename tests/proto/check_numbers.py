#!/usr/bin/env python3
"""Compares our .proto files with the descriptors of installed clients.

Usage: check_numbers.py DESCRIPTOR_SET
DESCRIPTOR_SET comes from `protoc-c --descriptor_set_out=FILE`: the files of which reflection tells. The
other side are the Python packages tritonclient[grpc], grpcio-health-checking and grpcio-reflection, which
knows v1alpha alone: v1 is held against it too.

Each message, enum and service of ours must be known to them under the same full name; each field
must agree in name, number, type, label and oneof, each method in its types and streaming. What we
add to a published message, and what we leave out of one, is listed below; anything else is an
error. Exit code: 0 equal, 1 different, 77 skipped because a client is not installed.
"""

import sys

try:
    from google.protobuf import descriptor_pb2
    from grpc_health.v1 import health_pb2
    from grpc_reflection.v1alpha import reflection_pb2
    from tritonclient.grpc import model_config_pb2, service_pb2
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# Published by the Open Inference Protocol or by KServe, unknown to tritonclient.
EXTRA = {
    "inference.ModelMetadataResponse.properties": 6,
    "inference.ModelMetadataResponse.PropertiesEntry": None,
    "inference.RepositoryModelLoadResponse.model_name": 1,
    "inference.RepositoryModelLoadResponse.isLoaded": 2,
    "inference.RepositoryModelUnloadResponse.model_name": 1,
    "inference.RepositoryModelUnloadResponse.isUnloaded": 2,
}

# Parts of published messages and services that we do not have.
OMITTED = {
    "inference.ModelConfig": {
        "optimization", "ensemble_scheduling", "model_warmup", "model_operations", "batch_input",
        "batch_output", "model_repository_agents", "model_metrics",
    },
    "inference.ModelInstanceGroup": {"rate_limiter", "secondary_devices"},
    "inference.GRPCInferenceService": {
        "SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister",
        "CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister",
        "TraceSetting", "LogSettings",
    },
    "grpc.health.v1.Health": {"List"},
}


def field_facts(message, field):
    """What must be equal on both sides, in words."""
    kind = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)
    label = descriptor_pb2.FieldDescriptorProto.Label.Name(field.label)
    oneof = ""
    if field.HasField("oneof_index"):
        oneof = message.oneof_decl[field.oneof_index].name
    return f"number {field.number}, {kind} {field.type_name}, {label}, oneof '{oneof}'"


def add_enum(table, scope, enum):
    table[f"{scope}.{enum.name}"] = {value.name: f"value {value.number}" for value in enum.value}


def add_message(table, scope, message):
    """Adds message and all it holds to table: full name -> {member name: facts}."""
    pending = [(scope, message)]
    while pending:
        scope, message = pending.pop()
        name = f"{scope}.{message.name}"
        table[name] = {field.name: field_facts(message, field) for field in message.field}
        if message.options.map_entry:
            table[name]["(map entry)"] = "yes"
        for enum in message.enum_type:
            add_enum(table, name, enum)
        pending.extend((name, nested) for nested in message.nested_type)


def add_service(table, scope, service):
    table[f"{scope}.{service.name}"] = {
        method.name: f"{method.input_type} stream={method.client_streaming} -> "
                     f"{method.output_type} stream={method.server_streaming}"
        for method in service.method
    }


def table_of(files):
    table = {}
    for file in files:
        for message in file.message_type:
            add_message(table, file.package, message)
        for enum in file.enum_type:
            add_enum(table, file.package, enum)
        for service in file.service:
            add_service(table, file.package, service)
    return table


def published_files():
    for module in (service_pb2, model_config_pb2, health_pb2, reflection_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        yield file


def add_version(table, published, version):
    """Adds what has `published` in its name under `version` too."""
    for name in [name for name in table if name.startswith(published + ".")]:
        table[name.replace(published, version)] = {
            member: facts.replace(published, version) for member, facts in table[name].items()
        }


def compare(ours, theirs):
    """Returns (number of members compared, list of differences)."""
    compared = 0
    differences = []
    for name in sorted(ours):
        if name not in theirs:
            if name not in EXTRA:
                differences.append(f"{name}: not published")
            continue
        for member, facts in ours[name].items():
            full = f"{name}.{member}"
            compared += 1
            if member in theirs[name]:
                if facts != theirs[name][member]:
                    differences.append(f"{full}: {facts}; published: {theirs[name][member]}")
            elif full not in EXTRA or not facts.startswith(f"number {EXTRA[full]},"):
                differences.append(f"{full}: not published")
        missing = set(theirs[name]) - set(ours[name])
        if missing != OMITTED.get(name, set()) & set(theirs[name]):
            differences.append(f"{name}: lacks {sorted(missing - OMITTED.get(name, set()))}")
    return compared, differences


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 1
    descriptor_set = descriptor_pb2.FileDescriptorSet()
    with open(sys.argv[1], "rb") as file:
        descriptor_set.ParseFromString(file.read())
    ours = table_of(descriptor_set.file)
    theirs = table_of(published_files())
    add_version(theirs, "grpc.reflection.v1alpha", "grpc.reflection.v1")
    compared, differences = compare(ours, theirs)
    for difference in differences:
        print(difference)
    print(f"{len(ours)} messages, enums and services, {compared} members compared, "
          f"{len(differences)} differences")
    return 1 if differences or compared == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
