#!/usr/bin/env python3
"""Writes seeds for fuzz_request, fuzz_json, fuzz_sched, fuzz_text and fuzz_safetensors into tests/fuzz/corpus; from the root of
the tree. The models they ask are those of tests/server/models.h, as tests/fuzz/serve.c makes them:
lone (x), tokens (tokens), chain (x, h0, c0, lengths), tree (x, children) and graph (cells: word 0, join 1; edges,
word.id, join.a, join.b). What fuzzing found is beside them, and not
made here."""
import json
import pathlib
import random
import struct


def write(name, data):
    path = pathlib.Path("tests/fuzz/corpus", name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


# ---- Protobuf: a field is a number and an int (varint) or bytes ----


def varint(value):
    out = b""
    value &= (1 << 64) - 1
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(*fields):
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def packed(values):
    return b"".join(varint(v) for v in values)


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def longs(values):
    return struct.pack(f"<{len(values)}q", *values)


def tensor(name, datatype, shape, contents=None):
    fields = [(1, name), (2, datatype), (3, packed(shape))]
    return message(*fields, *([(5, contents)] if contents is not None else []))


def infer(model, inputs, raw=(), outputs=(), parameters=(), name=""):
    return message(
        (1, model), (3, name), *((4, p) for p in parameters), *((5, i) for i in inputs),
        *((6, message((1, o))) for o in outputs), *((7, r) for r in raw))


def parameter(name, number, value):
    return message((1, name), (2, message((number, value))))


def requests():
    x = [0.5, -1.0, 2.0, 0.0, 1e30, -3.5]
    xs = tensor("x", "FP32", [1, 2, 3])
    h, c = tensor("h0", "FP32", [2, 4]), tensor("c0", "FP32", [2, 4])
    lengths, two = tensor("lengths", "INT64", [2]), tensor("x", "FP32", [2, 1, 3])
    tokens = tensor("tokens", "INT64", [1, 3])
    yield "chain", infer("chain", [xs], [floats(x)], name="a")
    yield "chain_contents", infer(
        "chain", [tensor("x", "FP32", [1, 2, 3], message((6, floats(x))))])
    states = [floats([0.1 * i for i in range(8)])] * 2
    yield "chain_all", infer("chain", [two, h, c, lengths],
                             [floats(x), *states, longs([1, 0])], ["c", "y"],
                             [parameter("timeout", 2, 5000)], name="all")
    yield "chain_empty", infer("chain", [two, lengths], [floats(x), longs([0, 0])])
    yield "chain_length_bad", infer("chain", [two, lengths], [floats(x), longs([1, 2])])
    yield "chain_rows", infer("chain", [tensor("x", "FP32", [41, 1, 3])], [bytes(41 * 12)])
    yield "chain_twice", infer("chain", [xs, xs], [floats(x)] * 2)
    yield "chain_nan", infer("chain", [xs], [b"\0\0\xc0\x7f" * 6])
    yield "tokens", infer("tokens", [tokens], [longs([1, 2, 31])], ["scores"])
    yield "tokens_contents", infer(
        "tokens", [tensor("tokens", "INT64", [1, 3], message((3, packed([0, 1, 2]))))])
    texts = lambda *parts: message(*((8, part) for part in parts))
    yield "tokens_text", infer("tokens", [tensor("tokens", "BYTES", [2], texts(b"\1\2\37", b"\3"))])
    yield "tokens_text_raw", infer(
        "tokens", [tensor("tokens", "BYTES", [2])], [b"\2\0\0\0\1\37\1\0\0\0\0"])
    yield "tokens_text_cut", infer("tokens", [tensor("tokens", "BYTES", [1])], [b"\2\0\0\0\1"])
    yield "tokens_id_bad", infer("tokens", [tokens], [longs([1, -1, 32])])
    yield "tokens_short", infer("tokens", [tokens], [longs([1, 2])])
    yield "tokens_long", infer("tokens", [tensor("tokens", "INT64", [1, 65])], [bytes(65 * 8)])
    yield "lone", infer("lone", [tensor("x", "INT32", [1, 3], message((2, packed([3, 4, 5]))))])
    yield "lone_negative", infer(
        "lone", [tensor("x", "INT32", [1, -1], message((2, packed([-3]))))])
    leaves = lambda n: tensor("x", "FP32", [n, 2])
    joined = lambda n: tensor("children", "INT64", [n, 2])
    some = floats([0.5, -1.0, 2.0, 0.0, 1e30, -3.5, 1.0, 1.0])
    for name, children in (("tree", [0, 1, 2, 3, 4, 5]), ("tree_forest", [3, 1, -1, 0]),
                           ("tree_backwards", [5, 0, 6, 1, 2, 3]), ("tree_circle", [0, 5, 1, 4]),
                           ("tree_parents", [0, 1, 1, 2]), ("tree_childless", [0, 1, -1, -1]),
                           ("tree_beyond", [0, 6]), ("tree_itself", [0, 4])):
        n = len(children) // 2
        yield name, infer("tree", [leaves(4), joined(n)], [some, longs(children)])
    yield "tree_leaf", infer("tree", [leaves(1), joined(0)], [some[:8], b""])
    for name, cells, edges in (
            ("graph", [0, 1, 1], [[0, 0, 1, 0], [0, 0, 1, 1], [1, 0, 2, 1]]),
            ("graph_backwards", [1, 1, 0], [[2, 0, 1, 0], [1, 0, 0, 0], [2, 0, 0, 1]]),
            ("graph_ids", [1, 0, 1], [[0, 1, 1, 0], [1, 0, 2, 0]]), ("graph_alone", [0], []),
            ("graph_cycle", [1, 1, 0], [[0, 0, 1, 0], [1, 0, 0, 0]]), ("graph_itself", [1], [[0, 0, 0, 1]]),
            ("graph_twice", [0, 1], [[0, 0, 1, 0]] * 2), ("graph_beyond", [0, 1], [[0, 0, 2, 0]]),
            ("graph_output", [0, 1], [[0, 1, 1, 0]]), ("graph_input", [0, 1], [[0, 0, 1, -2]]),
            ("graph_type", [1, 1], [[0, 1, 1, 0]]), ("graph_cell", [2], []), ("graph_none", [], [])):
        words, joins = cells.count(0), cells.count(1)
        yield name, infer(
            "graph",
            [tensor("cells", "INT64", [len(cells)]), tensor("edges", "INT64", [len(edges), 4]),
             tensor("word.id", "INT64", [words]), tensor("join.a", "FP32", [joins, 3])],
            [longs(cells), longs([n for edge in edges for n in edge]), longs([7] * words),
             floats([0.5, -1.0, 1e30] * joins)],
            ["join.sum", "word.v"] if name == "graph_backwards" else [])
    yield "graph_rows", infer("graph", [tensor("cells", "INT64", [2]), tensor("edges", "INT64", [0, 4]),
                                        tensor("join.b", "FP32", [2, 3])], [longs([0, 1]), b"", floats([0.0] * 6)])
    yield "output_unknown", infer("lone", [tensor("x", "INT32", [1, 1])], [bytes(4)], ["nothing"])
    yield "parameters", infer("lone", [tensor("x", "INT32", [1, 1])], [bytes(4)], [], [
        parameter("binary_data_output", 1, 1), parameter("sequence_id", 3, "s"),
        parameter("priority", 5, 0)])
    yield "order_load", message((2, "lone"), (3, parameter("config", 3, "{}")))
    yield "order_unload", message((1, ""), (2, "lone"), (3, parameter("unload_dependents", 1, 1)))
    yield "order_kserve", message((1, "lone"))


# ---- HTTP: JSON's length in two bytes (ffff: all of it), JSON, binary tensors ----


def body(inputs, binary=b"", **root):
    text = json.dumps({"inputs": inputs, **root}, separators=(",", ":")).encode()
    return struct.pack(">H", len(text) if binary else 65535) + text + binary


def given(name, datatype, shape, data):
    kind = "parameters" if isinstance(data, dict) else "data"
    return {"name": name, "datatype": datatype, "shape": shape, kind: data}


def bodies():
    x = given("x", "FP32", [1, 2, 3], [[[0.5, -1, 2], [0, 1e30, -3.5]]])
    yield "serve_chain", body([x], id="a", outputs=[{"name": "h"}, {"name": "y"}])
    yield "serve_chain_binary", body(
        [given("x", "FP32", [2, 1, 3], {"binary_data_size": 24}),
         given("lengths", "INT64", [2], [1, 0])], floats([1, 2, 3, 4, 5, 6]),
        outputs=[{"name": "y", "parameters": {"binary_data": True}}, {"name": "c"}])
    yield "serve_tokens", body([given("tokens", "INT64", [2, 2], [1, 2, 3, 31])])
    yield "serve_texts", body([given("tokens", "BYTES", [2], ["\1\2", "\37"])])
    yield "serve_tree", body([given("x", "FP32", [2, 2], [[0, 1], [2, 3]]),
                              given("children", "INT64", [1, 2], [[0, 1]])])
    yield "serve_graph", body([given("cells", "INT64", [3], [1, 0, 1]),
                               given("edges", "INT64", [2, 4], [[1, 0, 0, 0], [0, 0, 2, 1]]),
                               given("word.id", "INT64", [1], [3]),
                               given("join.b", "FP32", [2, 3], [[1, 2, 3], [0, 0, 1]])])
    yield "serve_lone", body([given("x", "INT32", [1, 3], [[7, 8, 9]])],
                             parameters={"binary_data_output": True})
    yield "order_load", body([], parameters={"file:1/model.onnx": "AAAA"})


# ---- The scheduler: see fuzz_sched.c ----

NEXT, EXECUTE, RETIRE, COME, RARE = range(5)


def events(text, numbers):
    kinds = {"n": NEXT, "x": EXECUTE, "r": RETIRE, "a": COME, "!": RARE}
    return bytes(kinds[c] + 5 * numbers.randrange(51) for c in text)


def worlds():
    numbers = random.Random(1)
    graphs = lambda n: bytes(numbers.randrange(256) for _ in range(3 * n))
    chain = bytes([0, 7, 0, 2, 0, 1, 0, 0, 1 + 4 * 1, 0, 3]) + bytes([0xF0, 0, 1] * 4)
    yield "chain", chain + events("anananaxrnxrnxr", numbers)
    two = bytes([0, 3, 1, 4, 9, 0, 1, 1, 13, 4, 26, 2, 5]) + graphs(6)
    yield "two_types", two + events("aannxxrrnananxxrr" * 3, numbers)
    four = bytes([3, 11, 2, 4, 0, 2, 0, 4, 1, 0, 5, 1, 14, 2, 33, 0, 7, 7, 11]) + graphs(12)
    yield "four_queues", four + events("aaaannnnxxxxrrrrnnxxrr" * 4, numbers)
    yield "cancels", four + events("aannx!rn!xr!" * 6, numbers)
    yield "failures", two + events("aan", numbers) + bytes([RARE + 5 * 45]) + events(
        "rnx", numbers) + bytes([RARE + 5 * 50]) + events("xrxranxr", numbers)
    all_graphs = four[:-37] + bytes([23]) + graphs(24)
    yield "long", all_graphs + events("anxarnx!rannxxrr" * 30, numbers)


# ---- Texts: see fuzz_text.c ----

WORDS, CHARACTERS, BYTES, UNKNOWN, TREE, TIME_FIRST = 1, 2, 0, 4, 8, 16


def texts(choices, *parts):
    parts = [part.encode() for part in parts]
    return bytes([choices, len(parts)]) + b"".join(struct.pack("<I", len(p)) + p for p in parts)


def all_texts():
    yield "words", texts(WORDS, "a b 1", " b ", "a\t1\r\n(")
    yield "unknown", texts(WORDS | UNKNOWN | TIME_FIRST, "a dog", "b")
    yield "characters", texts(CHARACTERS, "ab \u00e4", "1(")
    yield "bytes", texts(BYTES, "any \u20ac", "x")
    yield "tree", texts(TREE, "(a (b 1)(1 1 1))", "b", "((((a))))")
    yield "tree_unknown", texts(TREE | UNKNOWN, "(MAX 3 (MIN 4 5))")
    yield "tree_bad", texts(TREE, "(a", "a)", "()", "a a", "(a a a a)")
    yield "tree_deep", texts(TREE, "(" * 3000 + "a" + ")" * 3000)


# ---- Safetensors: layers, then the file; see fuzz_safetensors.c ----


def stored():
    """Of tests/data/safetensors, and two small ones by hand."""
    for folder in sorted(pathlib.Path("tests/data/safetensors").iterdir()):
        if folder.is_dir() and folder.name not in ("lstm_last", "lstm_bidirectional_last", "lstm_tied"):
            layers = (folder / "config.yaml").read_text().split("[")[1].split("]")[0].replace(" ", "")
            yield folder.name, layers.encode() + b"\n" + (folder / "1/model.safetensors").read_bytes()
    shapes = {"a.weight_ih_l0": [4, 1], "a.weight_hh_l0": [4, 1], "b.weight": [2, 1]}
    for name, last in (("small", "linear:b,last,tanh"), ("unused", "mean")):
        header, at = {"__metadata__": {"format": "pt"}}, 0
        for tensor, (rows, columns) in shapes.items():
            header[tensor] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [at, at + 4 * rows * columns]}
            at += 4 * rows * columns
        text = json.dumps(header, separators=(",", ":")).encode()
        yield name, f"lstm:a,{last}\n".encode() + struct.pack("<Q", len(text)) + text + floats([0.5] * (at // 4))


for corpus, seeds in (("request", requests()), ("json", bodies()), ("sched", worlds()), ("text", all_texts()),
                      ("safetensors", stored())):
    for name, data in seeds:
        write(f"{corpus}/{name}", data)
