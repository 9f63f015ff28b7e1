#!/usr/bin/env python3
"""Models loaded and unloaded by the unmodified tritonclient, over gRPC and over HTTP.

Usage: test_model_control.py GRPC_HOST:PORT HTTP_HOST:PORT MODELS; the daemon serves the folder MODELS
with --model-control-mode explicit and --load-model langid,parts; `late` and `changing` in it are copies of
langid. Run from the root of the tree. Ends with `N passed, N failed`; exit code 1 when one failed.
"""

import os
import shutil
import sys
import threading

import grpc
from test_tritonclient import MODEL, Clients, refused, run, tokens_of

TEXT = tokens_of("Where is the next station?")
MODELS = sys.argv[3]
SERVICE = "/inference.GRPCInferenceService/"


def ask(c, model, **options):
    """The answer's bits and the version that gave it."""
    result = c.infer(TEXT, model=model, **options)
    response = result.get_response(**c.as_json())
    return result.as_numpy("probabilities").tobytes(), response["model_version"]


def file_of(model, version="1"):
    return os.path.join(MODELS, model, version, "model.onnx")


def put(path, content):
    """A served file is replaced, never written into."""
    with open(path + ".new", "wb") as file:
        file.write(content)
    os.replace(path + ".new", path)


def other_weights(content):
    """The same model, with zeros in place of some of its weights."""
    start = len(content) // 2
    return content[:start] + bytes(4096) + content[start + 4096 :]


class Load:
    """Threads that ask a model without a pause, and keep what they got."""

    def __init__(self, c, model, threads=4):
        self.c = c
        self.model = model
        self.answers = []  # appended to by all threads
        self.errors = []
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]

    def run(self):
        try:
            client = Clients(self.c.name, self.c.module, self.c.address)
            while not self.stopped.is_set():
                self.answers.append(ask(client, self.model))
        except Exception as error:  # told by the test
            self.errors.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.wait()
        return self

    def wait(self, more=20):
        """Until so many more answers have come."""
        wanted = len(self.answers) + more
        while len(self.answers) < wanted and not self.errors:
            self.stopped.wait(0.01)

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


def ready_models(c):
    index = c.client.get_model_repository_index(**c.as_json())
    models = index["models"] if isinstance(index, dict) else index
    return {model["name"] for model in models if model["state"] == "READY"}


def test_extension(c):
    assert "model_repository" in c.client.get_server_metadata(**c.as_json())["extensions"]


def test_load_and_unload(c):
    right, _ = ask(c, MODEL)
    for _ in range(2):
        assert not c.client.is_model_ready("late")
        assert "late" not in ready_models(c)
        refused(lambda: ask(c, "late"), ["late"])
        c.client.load_model("late")
        assert c.client.is_model_ready("late") and c.client.is_model_ready("late", "1")
        assert "late" in ready_models(c)
        assert ask(c, "late") == (right, "1")
        c.client.unload_model("late", unload_dependents=True)
    assert not c.client.is_model_ready("late")
    assert c.client.is_server_ready()
    assert ask(c, MODEL)[0] == right


def test_load_of_what_is_loaded(c):
    before = ask(c, MODEL)
    c.client.load_model(MODEL)
    assert ask(c, MODEL) == before


def test_refusals(c):
    refused(lambda: c.client.load_model("none"), ["none"])
    refused(lambda: c.client.unload_model("none"), ["none"])
    c.client.load_model("late")
    c.client.unload_model("late")
    c.client.unload_model("late")  # a client that has lost the first answer asks again
    refused(lambda: c.client.load_model(".."), ["name"] if c.name == "http" else [".."])
    refused(lambda: c.client.load_model("late", config="{}"), ["config", "not implemented"])
    refused(lambda: c.client.load_model("late", config="{}", files={"file:1/model.onnx": b"x"}),
            ["not implemented"])
    assert not c.client.is_model_ready("late")


def test_versions_are_loaded_together(c):
    c.client.load_model("changing")
    assert c.client.get_model_metadata("changing", **c.as_json())["versions"] == ["1"]
    old = file_of("changing")
    with open(old, "rb") as file:
        content = file.read()
    shutil.copytree(os.path.dirname(old), os.path.join(MODELS, "changing", "2"))
    try:
        put(file_of("changing", "2"), other_weights(content))
        before = ask(c, "changing")
        with Load(c, "changing") as load:
            c.client.load_model("changing")
            load.wait()
        assert not load.errors, load.errors
        after = ask(c, "changing")
        assert before[1] == "1" and after[1] == "2" and before[0] != after[0]
        assert set(load.answers) == {before, after}
        assert c.client.get_model_metadata("changing", **c.as_json())["versions"] == ["1", "2"]
        assert ask(c, "changing", model_version="1") == before
    finally:
        shutil.rmtree(os.path.join(MODELS, "changing", "2"))
    c.client.load_model("changing")
    assert ask(c, "changing") == before
    refused(lambda: ask(c, "changing", model_version="2"), ["2"])
    c.client.unload_model("changing")


def test_reload_of_a_changed_file_under_load(c):
    path = file_of("changing")
    with open(path, "rb") as file:
        content = file.read()
    c.client.load_model("changing")
    before = ask(c, "changing")
    try:
        with Load(c, "changing") as load:
            put(path, other_weights(content))
            load.wait()
            assert set(load.answers) == {before}  # a file alone changes nothing
            c.client.load_model("changing")
            after = ask(c, "changing")
            load.wait()
            done = len(load.answers)
            load.wait()
        assert not load.errors, load.errors
        assert before[0] != after[0] and before[1] == after[1] == "1"
        assert set(load.answers) == {before, after}
        assert set(load.answers[done:]) == {after}
    finally:
        put(path, content)
    c.client.load_model("changing")
    assert ask(c, "changing") == before
    c.client.unload_model("changing")


def test_failed_load_changes_nothing(c):
    path = file_of("changing")
    with open(path, "rb") as file:
        content = file.read()
    c.client.load_model("changing")
    before = ask(c, "changing")
    try:
        put(path, b"no model at all")
        with Load(c, "changing") as load:
            refused(lambda: c.client.load_model("changing"), ["changing"])
            load.wait()
        assert not load.errors, load.errors
        assert set(load.answers) == {before}
        assert c.client.is_model_ready("changing")
    finally:
        put(path, content)
    c.client.unload_model("changing")
    assert not c.client.is_model_ready("changing")


def test_unload_answers_what_was_taken(c):
    """Each request of a model that goes is answered, or told that it is not there."""
    c.client.load_model("late")
    right = ask(c, "late")
    with Load(c, "late") as load:
        c.client.unload_model("late")
        for thread in load.threads:
            thread.join(30)
    assert set(load.answers) == {right}
    assert len(load.errors) == len(load.threads), load.errors
    assert all("late" in str(error) for error in load.errors), load.errors


def test_sessions_of_other_models_go_on(c):
    session = f"{c.name} goes on"
    right, _ = ask(c, "parts", sequence_id=session, sequence_start=True, sequence_end=True)
    c.infer(TEXT[:, :5], model="parts", sequence_id=session, sequence_start=True)
    c.client.load_model("late")
    c.client.unload_model("late")
    answer = c.infer(TEXT[:, 5:], model="parts", sequence_id=session, sequence_end=True)
    assert answer.as_numpy("probabilities").tobytes() == right


def test_session_ends_with_its_version(c):
    session = f"{c.name} ends"
    c.infer(TEXT[:, :5], model="parts", sequence_id=session, sequence_start=True)
    c.client.load_model("parts")
    refused(lambda: c.infer(TEXT[:, 5:], model="parts", sequence_id=session), ["session"])


def test_grpc_names_of_kserve(c):
    """KServe's client has the model's name in field 1, and reads both fields of the answer."""
    with grpc.insecure_channel(c.address) as channel:
        for method, ready in (("RepositoryModelLoad", True), ("RepositoryModelUnload", False)):
            answer = channel.unary_unary(SERVICE + method)(b"\x0a\x04late", timeout=30)
            assert answer == b"\x0a\x04late\x10\x01", answer
            assert c.client.is_model_ready("late") == ready


if __name__ == "__main__":
    sys.exit(run(dict(globals())))
