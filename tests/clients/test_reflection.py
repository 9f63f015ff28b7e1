#!/usr/bin/env python3
"""The unmodified grpcio-reflection and grpcio-health-checking against cellbatchd.

Usage: test_reflection.py GRPC_HOST:PORT; the daemon serves models/. Ends with `N passed, N failed`;
exit code 1 when one failed.
"""

import sys
import traceback

import grpc
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

V1 = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
INFERENCE = "inference.GRPCInferenceService"
SERVICES = {
    INFERENCE,
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
}
HealthCheckResponse = health_pb2.HealthCheckResponse


def pool_of(channel):
    """A pool that knows nothing but what the server tells."""
    return DescriptorPool(ProtoReflectionDescriptorDatabase(channel))


def classes_of(method):
    return (message_factory.GetMessageClass(method.input_type),
            message_factory.GetMessageClass(method.output_type))


def test_services(channel):
    assert set(ProtoReflectionDescriptorDatabase(channel).get_services()) == SERVICES


def test_every_service_is_described(channel):
    pool = pool_of(channel)
    for name in SERVICES:
        service = pool.FindServiceByName(name)
        assert service.methods, name
        for method in service.methods:
            classes_of(method)
            assert pool.FindMethodByName(method.full_name) is not None


def test_only_methods_that_work_are_told(channel):
    methods = {method.name for method in pool_of(channel).FindServiceByName(INFERENCE).methods}
    assert "ModelInfer" in methods and "ModelStreamInfer" in methods, methods
    assert "RepositoryModelLoad" in methods and "TraceSetting" not in methods, methods


def test_names_of_all_kinds(channel):
    pool = pool_of(channel)
    request = pool.FindMessageTypeByName("inference.ModelInferRequest")
    assert request.file.name == "proto/inference.proto"
    # proto3, a map, a oneof, a nested type, an enum
    parameters = request.fields_by_name["parameters"]
    assert parameters.message_type.GetOptions().map_entry
    assert not request.fields_by_name["id"].has_presence
    oneof = pool.FindMessageTypeByName("inference.InferParameter").oneofs_by_name
    assert len(oneof["parameter_choice"].fields) > 2
    assert pool.FindMessageTypeByName("inference.ModelInferRequest.InferInputTensor")
    assert pool.FindEnumTypeByName("inference.DataType").values_by_name["TYPE_FP32"].number > 0
    for find in (pool.FindMessageTypeByName, pool.FindFileByName, pool.FindServiceByName):
        try:
            find("inference.None")
        except KeyError:
            continue
        raise AssertionError("found what is not there")


def call(channel, pool, method, **fields):
    """A unary call with classes made of what the server tells."""
    name = f"{INFERENCE}.{method}"
    request, response = classes_of(pool.FindMethodByName(name))
    return channel.unary_unary(
        f"/{INFERENCE}/{method}",
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )(request(**fields), timeout=30)


def test_calls_without_proto_files(channel):
    pool = pool_of(channel)
    assert call(channel, pool, "ServerReady").ready
    assert call(channel, pool, "ModelMetadata", name="langid").inputs[0].name == "tokens"
    tokens = {"name": "tokens", "datatype": "INT64", "shape": [1, 3],
              "contents": {"int64_contents": [72, 105, 33]}}
    answer = call(channel, pool, "ModelInfer", model_name="langid", id="a", inputs=[tokens])
    assert answer.id == "a" and len(answer.raw_output_contents) > 0


def test_v1(channel):
    """grpcio-reflection has v1alpha's classes alone; v1 is the same on the wire."""
    request, response = (reflection_pb2.ServerReflectionRequest,
                         reflection_pb2.ServerReflectionResponse)
    talk = channel.stream_stream(V1, request_serializer=request.SerializeToString,
                                 response_deserializer=response.FromString)
    answers = list(talk(iter([request(list_services=""),
                              request(file_containing_symbol=INFERENCE),
                              request(file_containing_symbol="none"),
                              request(all_extension_numbers_of_type=INFERENCE)]), timeout=30))
    assert {service.name for service in answers[0].list_services_response.service} == SERVICES
    file = descriptor_pb2.FileDescriptorProto.FromString(
        answers[1].file_descriptor_response.file_descriptor_proto[0])
    assert file.package == "inference" and file.syntax == "proto3"
    assert answers[2].error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert answers[2].original_request.file_containing_symbol == "none"
    assert answers[3].error_response.error_code == grpc.StatusCode.UNIMPLEMENTED.value[0]


def test_not_a_question_ends_the_stream(channel):
    talk = channel.stream_stream(V1)
    try:
        list(talk(iter([b"\xff"]), timeout=30))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        return
    raise AssertionError("was not refused")


def test_watch(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    for service, status in (("", HealthCheckResponse.SERVING),
                            (INFERENCE, HealthCheckResponse.SERVING),
                            ("langid", HealthCheckResponse.SERVING),
                            ("none", HealthCheckResponse.SERVICE_UNKNOWN)):
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=30)
        assert next(watch).status == status, service
        watch.cancel()
        try:
            next(watch)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.CANCELLED, error


def main():
    passed = failed = 0
    with grpc.insecure_channel(sys.argv[1]) as channel:
        for name, test in sorted(globals().items()):
            if not name.startswith("test_"):
                continue
            try:
                test(channel)
                passed += 1
            except Exception:  # each test may fail by itself
                failed += 1
                print(f"FAIL {name}")
                traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
