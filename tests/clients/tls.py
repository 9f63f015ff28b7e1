#!/usr/bin/env python3
"""The unmodified tritonclient over mutual TLS, as docs/operations.md shows it.

Usage: tls.py GRPC_HOST:PORT HTTP_HOST:PORT FOLDER, whose files tests/certificates.sh made. Exit code 1
when a client is not answered that has to be, or is that must not.
"""

import sys

import gevent.ssl
import numpy
import tritonclient.grpc
import tritonclient.http


def infer(module, client):
    tokens = numpy.frombuffer(b"Hello", dtype=numpy.uint8).astype(numpy.int64)[None, :]
    tensor = module.InferInput("tokens", list(tokens.shape), "INT64")
    tensor.set_data_from_numpy(tokens)
    answer = client.infer("langid", [tensor]).as_numpy("probabilities")
    assert abs(answer[0][0] - 0.74414897) < 1e-5, answer


def over_grpc(address, folder, name):
    files = {"root_certificates": f"{folder}/ca.pem"}
    if name:
        files["private_key"] = f"{folder}/{name}.key"
        files["certificate_chain"] = f"{folder}/{name}.pem"
    client = tritonclient.grpc.InferenceServerClient(address, ssl=True, **files)
    infer(tritonclient.grpc, client)


def over_http(address, folder, name):
    options = {"ca_certs": f"{folder}/ca.pem"}
    if name:
        options["keyfile"] = f"{folder}/{name}.key"
        options["certfile"] = f"{folder}/{name}.pem"
    client = tritonclient.http.InferenceServerClient(
        address,
        ssl=True,
        ssl_options=options,
        ssl_context_factory=gevent.ssl.create_default_context,
    )
    infer(tritonclient.http, client)


def main():
    grpc_address, http_address, folder = sys.argv[1:4]
    for ask, address in ((over_grpc, grpc_address), (over_http, http_address)):
        ask(address, folder, "client")
        for name in ("", "wrong"):
            try:
                ask(address, folder, name)
            except Exception as error:  # each library has its own
                assert not isinstance(error, AssertionError), error
                continue
            raise AssertionError(f"{ask.__name__}: '{name}' was let in")


main()
