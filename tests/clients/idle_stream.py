#!/usr/bin/env python3
"""A client that holds a stream, and a Watch of the server's health, and sends nothing more while the
daemon stops.

Usage: idle_stream.py GRPC_HOST:PORT; prints `waiting` when its one request has been answered. Exit
code 0 when both streams then end as those of a server that stops.
"""

import queue
import sys

import grpc
import numpy
import tritonclient.grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc


def expect_end(watch):
    """Perhaps NOT_SERVING first, which is lost when the end comes along with it."""
    try:
        for answer in watch:
            assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING, answer
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        assert "the server is stopping" in error.details(), error
        return
    raise AssertionError("the watch ended well")


def main():
    client = tritonclient.grpc.InferenceServerClient(sys.argv[1])
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    tensor = tritonclient.grpc.InferInput("tokens", [1, 3], "INT64")
    tensor.set_data_from_numpy(numpy.array([[72, 105, 33]], dtype=numpy.int64))
    client.async_stream_infer("langid", [tensor])
    result, error = answers.get(timeout=30)
    assert error is None, error
    channel = grpc.insecure_channel(sys.argv[1])
    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=30)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    print("waiting", flush=True)
    result, error = answers.get(timeout=30)
    client.stop_stream()
    assert result is None and error.status() == "StatusCode.UNAVAILABLE", (result, error)
    assert "the server is stopping" in str(error), error
    expect_end(watch)


if __name__ == "__main__":
    main()
