#!/usr/bin/env python3
"""A client that holds a stream and sends nothing more while the daemon stops.

Usage: idle_stream.py GRPC_HOST:PORT; prints `waiting` when its one request has been answered. Exit
code 0 when the stream then ends as that of a server that stops.
"""

import queue
import sys

import numpy
import tritonclient.grpc


def main():
    client = tritonclient.grpc.InferenceServerClient(sys.argv[1])
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    tensor = tritonclient.grpc.InferInput("tokens", [1, 3], "INT64")
    tensor.set_data_from_numpy(numpy.array([[72, 105, 33]], dtype=numpy.int64))
    client.async_stream_infer("langid", [tensor])
    result, error = answers.get(timeout=30)
    assert error is None, error
    print("waiting", flush=True)
    result, error = answers.get(timeout=30)
    client.stop_stream()
    assert result is None and error.status() == "StatusCode.UNAVAILABLE", (result, error)
    assert "the server is stopping" in str(error), error


if __name__ == "__main__":
    main()
