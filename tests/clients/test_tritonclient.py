#!/usr/bin/env python3
"""The unmodified tritonclient against cellbatchd, over gRPC and over HTTP.

Usage: test_tritonclient.py GRPC_HOST:PORT HTTP_HOST:PORT; the daemon serves models/, run from the
root of the tree. Ends with `N passed, N failed`; exit code 1 when one failed.
"""

import json
import queue
import sys
import traceback
import urllib.request

import numpy
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

MODEL = "langid"
TOLERANCE = 1e-5


def sentences():
    with open("models/langid/sentences.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Clients:
    """One protocol: its module, a client, and answers as plain Python."""

    def __init__(self, name, module, address):
        self.name = name
        self.module = module
        self.address = address
        self.client = module.InferenceServerClient(address)

    def as_json(self):
        return {"as_json": True} if self.name == "grpc" else {}

    def infer(self, tokens, model=MODEL, wanted=("probabilities",), **options):
        tensor = self.module.InferInput("tokens", list(tokens.shape), "INT64")
        tensor.set_data_from_numpy(tokens)
        outputs = [self.module.InferRequestedOutput(name) for name in wanted] or None
        return self.client.infer(model, [tensor], outputs=outputs, **options)


def tokens_of(text):
    return numpy.frombuffer(text.encode(), dtype=numpy.uint8).astype(numpy.int64)[None, :]


def refused(call, words):
    """The call must fail, with all the words in its message."""
    try:
        call()
    except InferenceServerException as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{error} lacks {missing}"
        return
    raise AssertionError("was not refused")


def test_health(c):
    assert c.client.is_server_live()
    assert c.client.is_server_ready()
    assert c.client.is_model_ready(MODEL)
    assert c.client.is_model_ready(MODEL, "1")
    assert not c.client.is_model_ready("none")


def test_server_metadata(c):
    metadata = c.client.get_server_metadata(**c.as_json())
    assert metadata["name"] == "cellbatch", metadata
    assert "statistics" in metadata["extensions"], metadata


def test_model_metadata(c):
    metadata = c.client.get_model_metadata(MODEL, **c.as_json())
    assert metadata["name"] == MODEL
    assert metadata["versions"] == ["1"]
    tensor = metadata["inputs"][0]
    assert tensor["name"] == "tokens" and tensor["datatype"] == "INT64"
    assert [int(dim) for dim in tensor["shape"]] == [-1, -1]
    tensor = metadata["outputs"][0]
    assert tensor["name"] == "probabilities" and tensor["datatype"] == "FP32"
    assert [int(dim) for dim in tensor["shape"]] == [-1, 2]


def test_model_config(c):
    config = c.client.get_model_config(MODEL, **c.as_json())
    config = config.get("config", config)
    assert config["name"] == MODEL
    assert int(config["max_batch_size"]) > 0
    assert config["input"][0]["data_type"] == "TYPE_INT64"
    assert [int(dim) for dim in config["input"][0]["dims"]] == [-1]
    name = config["input"][0]["name"]
    assert config["parameters"][f"range.{name}"]["string_value"].startswith("0.."), config


def test_repository_index(c):
    index = c.client.get_model_repository_index(**c.as_json())
    models = index["models"] if isinstance(index, dict) else index
    assert any(m["name"] == MODEL and m["state"] == "READY" for m in models), models


def test_models_stay_as_they_are_by_default(c):
    refused(lambda: c.client.load_model(MODEL), ["model-control-mode"])
    refused(lambda: c.client.unload_model(MODEL), ["model-control-mode"])
    assert c.client.is_model_ready(MODEL)
    extensions = c.client.get_server_metadata(**c.as_json())["extensions"]
    assert not any("model_repository" in name for name in extensions), extensions


def test_infer_matches_pytorch(c):
    worst = 0.0
    for sentence in sentences():
        result = c.infer(tokens_of(sentence["text"]))
        got = result.as_numpy("probabilities")
        assert got.shape == (1, 2) and got.dtype == numpy.float32
        worst = max(worst, float(numpy.abs(got[0] - sentence["probabilities"]).max()))
    assert worst <= TOLERANCE, worst


def test_infer_batch(c):
    chosen = [s for s in sentences() if len(s["text"].encode()) >= 10][:5]
    tokens = numpy.concatenate([tokens_of(s["text"])[:, :10] for s in chosen])
    together = c.infer(tokens).as_numpy("probabilities")
    alone = [c.infer(tokens[i : i + 1]).as_numpy("probabilities")[0] for i in range(len(chosen))]
    # Not close but equal: a row's bits do not depend on its neighbours.
    assert together.tobytes() == numpy.stack(alone).tobytes()


def test_halves(c):
    """What comes and goes as halves of either kind, of which tritonclient makes and reads floats
    where numpy has none."""
    for model, folder, datatype in (
        ("half_tagger_whole", "half_tagger_whole-half1.16-op14", "FP16"),
        ("half_brain", "half_brain-dynamo2.15-op20", "BF16"),
    ):
        config = c.client.get_model_config(model, **c.as_json())
        config = config.get("config", config)
        assert config["input"][0]["data_type"] == f"TYPE_{datatype}", config
        assert config["output"][0]["data_type"] == f"TYPE_{datatype}", config
        with open(f"tests/data/onnx/{folder}/golden.json", encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        for case in cases:
            given, wanted = case["inputs"][0], case["outputs"][0]
            kind = numpy.float16 if datatype == "FP16" else numpy.float32
            array = numpy.array(given["data"], kind).reshape(given["shape"])
            tensor = c.module.InferInput(given["name"], given["shape"], datatype)
            tensor.set_data_from_numpy(array)
            got = c.client.infer(model, [tensor]).as_numpy(wanted["name"])
            right = numpy.array(wanted["data"], numpy.float32).reshape(wanted["shape"])
            assert got.dtype == kind and got.shape == right.shape
            step = 2.0**-11 if datatype == "FP16" else 2.0**-8
            assert numpy.abs(got - right).max() <= step, numpy.abs(got - right).max()


def test_infer_all_outputs_and_id(c):
    result = c.infer(tokens_of("Hello"), wanted=(), request_id="job-1")
    assert result.as_numpy("probabilities").shape == (1, 2)
    response = result.get_response(**c.as_json())
    assert response["id"] == "job-1" and response["model_name"] == MODEL, response


def test_statistics(c):
    def successes():
        statistics = c.client.get_inference_statistics(MODEL, **c.as_json())
        entry = statistics["model_stats"][0]["inference_stats"]
        counts = {int(entry[key].get("count", 0)) for key in
                  ("success", "queue", "compute_input", "compute_infer", "compute_output")}
        assert len(counts) == 1, entry
        assert "cache_hit" in entry and "cache_miss" in entry
        return counts.pop()

    before = successes()
    c.infer(tokens_of("one more"))
    assert successes() == before + 1


def test_errors(c):
    tokens = tokens_of("Hello")
    refused(lambda: c.infer(tokens, model="none"), ["none"])
    refused(lambda: c.infer(tokens, model_version="9"), ["9"])
    refused(lambda: c.infer(tokens, wanted=("nothing",)), ["nothing"])
    refused(lambda: c.infer(tokens - 1000, request_id="job-2"), ["job-2", "tokens"])
    refused(lambda: c.infer(tokens, sequence_id=7, sequence_start=True), ["sequence_id"])
    refused(lambda: c.client.get_model_metadata("none"), ["none"])
    refused(lambda: c.client.get_model_config("none"), ["none"])


def test_sessions(c):
    text = tokens_of("Where is the next station?")
    whole = c.infer(text).as_numpy("probabilities")
    for session in (7, f"{c.name} session"):
        refused(lambda: c.infer(text, model="parts", sequence_id=session), ["session", "begun"])
        for first in range(0, text.shape[1], 5):
            answer = c.infer(text[:, first : first + 5], model="parts", sequence_id=session,
                             sequence_start=first == 0, sequence_end=first + 5 >= text.shape[1])
        assert (answer.as_numpy("probabilities") == whole).all()
    config = c.client.get_model_config("parts", **c.as_json())
    config = config.get("config", config)
    assert int(config["sequence_batching"]["max_sequence_idle_microseconds"]) == 60000000, config
    extensions = c.client.get_server_metadata(**c.as_json())["extensions"]
    assert "sequence" in extensions and "sequence(string_id)" in extensions, extensions


class Stream:
    """A stream of the gRPC client; next() waits for the callback's (result, error)."""

    open = None  # the one that is; its thread would keep the program from ending

    def __init__(self, c, **options):
        Stream.open = self
        self.c = c
        self.answers = queue.Queue()
        c.client.start_stream(lambda result, error: self.answers.put((result, error)), **options)

    def send(self, tokens, model=MODEL, **options):
        tensor = self.c.module.InferInput("tokens", list(tokens.shape), "INT64")
        tensor.set_data_from_numpy(tokens)
        self.c.client.async_stream_infer(model, [tensor], **options)

    def next(self):
        return self.answers.get(timeout=30)

    def result(self):
        result, error = self.next()
        assert error is None, error
        return result

    def error(self, words):
        result, error = self.next()
        assert result is None and isinstance(error, InferenceServerException), (result, error)
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{error} lacks {missing}"
        return error

    def stop(self, **options):
        Stream.open = None
        self.c.client.stop_stream(**options)
        assert self.answers.empty(), self.answers.get()


def test_grpc_stream_matches_pytorch_in_order(c):
    chosen = sentences()
    stream = Stream(c)
    for i, sentence in enumerate(chosen):
        stream.send(tokens_of(sentence["text"]), request_id=f"s{i}")
    worst = 0.0
    for i, sentence in enumerate(chosen):
        result = stream.result()
        response = result.get_response(as_json=True)
        assert response["id"] == f"s{i}", response
        assert response["parameters"]["triton_final_response"]["bool_param"] is True, response
        got = result.as_numpy("probabilities")
        worst = max(worst, float(numpy.abs(got[0] - sentence["probabilities"]).max()))
    stream.stop()
    assert worst <= TOLERANCE, worst


def test_grpc_stream_goes_on_after_errors(c):
    stream = Stream(c)
    stream.send(tokens_of("Hello"), model="none", request_id="job-3")
    stream.send(tokens_of("Hello") - 1000, request_id="job-4")
    stream.send(tokens_of("Hello"), model="n" + 50 * "\u00e4", request_id="job-5")
    stream.send(tokens_of("Hello"), request_id="job-6", enable_empty_final_response=True)
    stream.error(["none", "job-3"])
    stream.error(["tokens", "job-4"])
    stream.error(["no model", "job-5"])
    assert stream.result().as_numpy("probabilities").shape == (1, 2)
    stream.stop()


def test_grpc_stream_ends_with_the_status_of_an_error(c):
    stream = Stream(c, headers={"triton_grpc_error": "true"})
    stream.send(tokens_of("Hello"))
    stream.send(tokens_of("Hello"), model="none")
    assert stream.result().as_numpy("probabilities").shape == (1, 2)
    assert stream.error(["none"]).status() == "StatusCode.NOT_FOUND"
    stream.stop()


def test_grpc_stream_of_sessions(c):
    """Two texts in parts of five bytes, in turn, sent before anything is answered."""
    texts = [tokens_of("Where is the next station?"), tokens_of("Wo ist hier der Bahnhof, bitte?")]
    wholes = [c.infer(text).as_numpy("probabilities") for text in texts]
    stream = Stream(c)
    firsts = range(0, max(text.shape[1] for text in texts), 5)
    sent = [(first, which) for first in firsts for which in (0, 1) if first < texts[which].shape[1]]
    for first, which in sent:
        stream.send(texts[which][:, first : first + 5], model="parts", sequence_id=f"text {which}",
                    sequence_start=first == 0, sequence_end=first + 5 >= texts[which].shape[1])
    for first, which in sent:
        got = stream.result().as_numpy("probabilities")
        if first + 5 >= texts[which].shape[1]:
            assert (got == wholes[which]).all()
    stream.stop()


def test_grpc_stream_that_is_cancelled(c):
    stream = Stream(c)
    stream.send(tokens_of("Hello"))
    stream.result()
    c.client.stop_stream(cancel_requests=True)
    Stream.open = None
    stream.error(["Locally cancelled"])
    assert c.client.is_server_live()


def days():
    """Texts that say a day, for the decoder `dates`, and what it writes for each alone."""
    with open("models/dates/examples.jsonl", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file][:20]


def texts_of(c, texts):
    tensor = c.module.InferInput("text", [len(texts)], "BYTES")
    tensor.set_data_from_numpy(numpy.array([text.encode() for text in texts], dtype=object))
    return [tensor]


def written(result):
    return [text.decode() for text in result.as_numpy("token")]


def test_grpc_stream_of_answers_in_parts(c):
    wholes = [written(c.client.infer("dates", texts_of(c, [text])))[0] for text in days()]
    stream = Stream(c)
    for i, text in enumerate(days()):
        c.client.async_stream_infer("dates", texts_of(c, [text]), request_id=f"d{i}", parameters={"stream": True})
    for i, whole in enumerate(wholes):
        got, is_final = "", False
        while not is_final:
            result = stream.result()
            response = result.get_response()
            assert response.id == f"d{i}", response
            is_final = response.parameters["triton_final_response"].bool_param
            assert is_final == (result.as_numpy("lengths") is not None)
            got += written(result)[0]
        assert got == whole and result.as_numpy("lengths").tolist() == [len(whole)], (got, whole)
    # Some rows at once, of which each has its own end.
    c.client.async_stream_infer("dates", texts_of(c, days()), parameters={"stream": True})
    got, is_final = [""] * len(wholes), False
    while not is_final:
        result = stream.result()
        is_final = result.get_response().parameters["triton_final_response"].bool_param
        got = [before + more for before, more in zip(got, written(result))]
    assert got == wholes, got
    stream.stop()


def test_parts_of_a_call_with_one_answer_are_refused(c):
    refused(lambda: c.client.infer("dates", texts_of(c, days()[:1]), parameters={"stream": True}), ["'stream'"])
    c.client.infer("dates", texts_of(c, days()[:1]), parameters={"stream": False})


def generate(page, body):
    """What urllib gets of generate or generate_stream: its events, or the one object."""
    url = f"http://{sys.argv[2]}/v2/models/{page}"
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        kind, text = answer.headers["Content-Type"], answer.read().decode()
    if page.endswith("generate"):
        assert kind == "application/json", kind
        return [json.loads(text)]
    assert kind == "text/event-stream; charset=utf-8", kind
    events = text.split("\n\n")
    assert events.pop() == "" and all(event.startswith("data: ") for event in events), text
    return [json.loads(event[len("data: ") :]) for event in events]


def test_generate(c):
    for text in days():
        whole = written(c.client.infer("dates", texts_of(c, [text])))[0]
        assert generate("dates/generate", {"text": text})[0]["token"] == whole
        events = generate("dates/generate_stream", {"text": text})
        assert "".join(event["token"] for event in events) == whole, events
        assert [event.get("lengths") for event in events] == [None] * (len(events) - 1) + [len(whole)], events
    many = generate("dates/versions/1/generate", {"text": days(), "outputs": ["token"]})[0]
    assert many["token"] == written(c.client.infer("dates", texts_of(c, days()))) and "lengths" not in many
    tree = "(SM (MED 2 2) 7 0 3)"  # of a tree, and of a chain, there is one part
    assert generate("listops/generate_stream", {"word": tree}) == generate("listops/generate", {"word": tree})
    tokens = tokens_of("Guten Morgen")
    assert len(generate("langid/generate_stream", {"tokens": tokens[0].tolist()})) == 1
    got = generate("langid/generate", {"tokens": tokens[0].tolist(), "id": "g"})[0]
    want = c.infer(tokens).as_numpy("probabilities")[0]
    assert got["id"] == "g" and (numpy.float32(got["probabilities"]) == want).all(), got


def run(tests):
    """Each function called test_.. with each client, those called test_grpc_.. over gRPC alone."""
    clients = [
        Clients("grpc", tritonclient.grpc, sys.argv[1]),
        Clients("http", tritonclient.http, sys.argv[2]),
    ]
    passed = failed = 0
    for c in clients:
        for name, test in tests.items():
            if not name.startswith("test_") or (name.startswith("test_grpc_") and c.name != "grpc"):
                continue
            try:
                test(c)
                passed += 1
            except Exception:  # each test stands for itself
                failed += 1
                print(f"FAIL {c.name} {name}")
                traceback.print_exc()
                if Stream.open is not None:
                    Stream.open.c.client.stop_stream(cancel_requests=True)
                    Stream.open = None
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(run(dict(globals())))
