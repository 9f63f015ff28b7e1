#!/usr/bin/env python3
"""Writes into tests/data/onnx models whose cell is the body of a Scan: cells that no ONNX operator
has (a phased LSTM, one with layer normalisation), LSTM and GRU written out in small operators, and
what else a Scan may do. Graphs in ONNX's text form, weights and cases in the manner of exports.py;
the outputs are the equations written out in PyTorch, and agree with onnxruntime's.
"""

import argparse
import json
import pathlib
import zlib

import onnx
import onnx.parser
import torch
from onnx import numpy_helper
from torch.nn.functional import layer_norm

from exports import WEIGHT_MAX, tensor
from golden import CASES, TOLERANCE, difference, make_golden
from lstm_modules import HIDDEN, INPUT, WORDS

OPSET = 17
IR_VERSION = 8  # of that opset's time
I, H = INPUT, HIDDEN


def run(step, inputs, states):
    """step(x_t..., states) -> (states, outputs) over time; stacked outputs, last states."""
    steps = []
    for t in range(inputs[0].shape[0]):
        states, outputs = step([x[t] for x in inputs], states)
        steps.append(outputs)
    return states, [torch.stack(column) for column in zip(*steps)]


# ---- Models: graph text, weight shapes, inputs, equations -------------------------------------


class Lstm:
    """An LSTM in small operators, as a decomposed export has it: two products, Split, gates i o f g."""

    weights = {"w": (I, 4 * H), "r": (H, 4 * H), "b": (4 * H,)}
    inputs = {"x": "x", "h0": "state", "c0": "state"}
    text = """
m (float[time,batch,6] x, float[batch,8] h0, float[batch,8] c0)
  => (float[time,batch,8] y, float[batch,8] hn, float[batch,8] cn) {
  hn, cn, y = Scan <num_scan_inputs = 1, body = step
    (float[batch,8] h, float[batch,8] c, float[batch,6] xt)
    => (float[batch,8] h1, float[batch,8] c1, float[batch,8] yt) {
      xw = MatMul (xt, w)
      hr = MatMul (h, r)
      sum0 = Add (xw, hr)
      sum = Add (sum0, b)
      i0, o0, f0, g0 = Split <axis = -1> (sum)
      i = Sigmoid (i0)
      o = Sigmoid (o0)
      f = Sigmoid (f0)
      g = Tanh (g0)
      fc = Mul (f, c)
      ig = Mul (i, g)
      c1 = Add (fc, ig)
      tc = Tanh (c1)
      h1 = Mul (o, tc)
      yt = Identity (h1)
    }> (h0, c0, x)
}"""

    @staticmethod
    def compute(p, x, h0, c0):
        def step(at, states):
            h, c = states
            i, o, f, g = (at[0] @ p["w"] + h @ p["r"] + p["b"]).chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            return [h, c], [h]

        (h, c), (y,) = run(step, [x], [h0, c0])
        return {"y": y, "hn": h, "cn": c}


class LstmSums(Lstm):
    """The same with the sum of both products in a Gemm, as optimisers put it: C is h r, one row a row."""

    text = Lstm.text.replace("      xw = MatMul (xt, w)\n", "").replace(
        "      sum0 = Add (xw, hr)\n", "      sum0 = Gemm (xt, w, hr)\n"
    )


class Weighted(Lstm):
    """Gemm with alpha, beta and a C that depends on the request, of the batch's rows and of one"""

    weights = {"w": (I, H), "r": (H, H), "b": (1, H)}
    inputs = {"x": "x", "h0": "state"}
    text = """
m (float[time,batch,6] x, float[batch,8] h0) => (float[time,batch,8] y, float[batch,8] hn) {
  hn, y = Scan <num_scan_inputs = 1, body = step
    (float[batch,8] h, float[batch,6] xt) => (float[batch,8] h1, float[batch,8] yt) {
      hr = Gemm <alpha = 0.5, beta = 2.0> (h, r, b)
      sum = Gemm <alpha = 2.0, beta = 0.25> (xt, w, hr)
      h1 = Tanh (sum)
      yt = Identity (h1)
    }> (h0, x)
}"""

    @staticmethod
    def compute(p, x, h0):
        def step(at, states):
            hr = 0.5 * states[0] @ p["r"] + 2 * p["b"]
            h = torch.tanh(2 * at[0] @ p["w"] + 0.25 * hr)
            return [h], [h]

        (h,), (y,) = run(step, [x], [h0])
        return {"y": y, "hn": h}


class LstmCell:
    """An LSTM as torch.nn.LSTMCell exports it: two Gemms with transB, gates i f g o cut by Slice."""

    weights = {"w": (4 * H, I), "r": (4 * H, H), "bw": (4 * H,), "br": (4 * H,)}
    inputs = {"x": "x", "h0": "state", "c0": "state"}
    text = """
m (float[time,batch,6] x, float[batch,8] h0, float[batch,8] c0)
  => (float[time,batch,8] y, float[batch,8] cn) {
  a0 = Constant <value_ints = [0]> ()
  a1 = Constant <value_ints = [8]> ()
  a2 = Constant <value_ints = [16]> ()
  a3 = Constant <value_ints = [24]> ()
  a4 = Constant <value_ints = [32]> ()
  one = Constant <value_ints = [1]> ()
  hn, cn, y = Scan <num_scan_inputs = 1, body = step
    (float[batch,8] h, float[batch,8] c, float[batch,6] xt)
    => (float[batch,8] h1, float[batch,8] c1, float[batch,8] yt) {
      xw = Gemm <transB = 1> (xt, w, bw)
      hr = Gemm <transB = 1> (h, r, br)
      sum = Add (hr, xw)
      i0 = Slice (sum, a0, a1, one)
      f0 = Slice (sum, a1, a2, one)
      g0 = Slice (sum, a2, a3, one)
      o0 = Slice (sum, a3, a4, one)
      i = Sigmoid (i0)
      f = Sigmoid (f0)
      g = Tanh (g0)
      o = Sigmoid (o0)
      ig = Mul (i, g)
      fc = Mul (f, c)
      c1 = Add (ig, fc)
      tc = Tanh (c1)
      h1 = Mul (tc, o)
      yt = Identity (h1)
    }> (h0, c0, x)
}"""

    @staticmethod
    def compute(p, x, h0, c0):
        def step(at, states):
            h, c = states
            sums = at[0] @ p["w"].T + p["bw"] + h @ p["r"].T + p["br"]
            i, f, g, o = sums.chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            return [h, c], [h]

        (_, c), (y,) = run(step, [x], [h0, c0])
        return {"y": y, "cn": c}


class Gru:
    """A GRU that resets after the product, as torch.nn.GRUCell exports it: gates r z n."""

    weights = {"w": (3 * H, I), "r": (3 * H, H), "bw": (3 * H,), "br": (3 * H,)}
    inputs = {"x": "x", "h0": "state"}
    text = """
m (float[time,batch,6] x, float[batch,8] h0) => (float[time,batch,8] y, float[batch,8] hn) {
  hn, y = Scan <num_scan_inputs = 1, body = step
    (float[batch,8] h, float[batch,6] xt) => (float[batch,8] h1, float[batch,8] yt) {
      xw = Gemm <transB = 1> (xt, w, bw)
      hr = Gemm <transB = 1> (h, r, br)
      xr, xz, xn = Split <axis = 1> (xw)
      rr, rz, rn = Split <axis = 1> (hr)
      r0 = Add (xr, rr)
      z0 = Add (xz, rz)
      reset = Sigmoid (r0)
      z = Sigmoid (z0)
      left = Mul (reset, rn)
      n0 = Add (xn, left)
      n = Tanh (n0)
      gap = Sub (h, n)
      part = Mul (z, gap)
      h1 = Add (n, part)
      yt = Identity (h1)
    }> (h0, x)
}"""

    @staticmethod
    def compute(p, x, h0):
        def step(at, states):
            h = states[0]
            xr, xz, xn = (at[0] @ p["w"].T + p["bw"]).chunk(3, dim=1)
            hr, hz, hn = (h @ p["r"].T + p["br"]).chunk(3, dim=1)
            z = torch.sigmoid(xz + hz)
            n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
            h = n + z * (h - n)
            return [h], [h]

        (h,), (y,) = run(step, [x], [h0])
        return {"y": y, "hn": h}


class Phased:
    """Phased LSTM (Neil, Pfeiffer, Liu 2016): an LSTM whose units open in their own rhythm; the time
    of each step is an input."""

    weights = {
        "w": (I, 4 * H),
        "r": (H, 4 * H),
        "b": (4 * H,),
        "tau": (H,),
        "shift": (H,),
    }
    positive = {"tau": 2.0}  # added
    inputs = {"x": "x", "t": "times", "h0": "state", "c0": "state"}
    text = """
m (float[time,batch,6] x, float[time,batch,1] t, float[batch,8] h0, float[batch,8] c0)
  => (float[time,batch,8] y, float[batch,8] hn, float[batch,8] cn) {
  half = Constant <value_float = 0.05> ()
  open = Constant <value_float = 0.1> ()
  two = Constant <value_float = 2.0> ()
  leak = Constant <value_float = 0.001> ()
  hn, cn, y = Scan <num_scan_inputs = 2, body = step
    (float[batch,8] h, float[batch,8] c, float[batch,6] xt, float[batch,1] at)
    => (float[batch,8] h1, float[batch,8] c1, float[batch,8] yt) {
      xw = MatMul (xt, w)
      hr = MatMul (h, r)
      sum0 = Add (xw, hr)
      sum = Add (sum0, b)
      i0, o0, f0, g0 = Split <axis = 1> (sum)
      i = Sigmoid (i0)
      o = Sigmoid (o0)
      f = Sigmoid (f0)
      g = Tanh (g0)
      fc = Mul (f, c)
      ig = Mul (i, g)
      cx = Add (fc, ig)
      tc = Tanh (cx)
      hx = Mul (o, tc)
      since = Sub (at, shift)
      turns = Div (since, tau)
      whole = Floor (turns)
      phase = Sub (turns, whole)
      twice = Mul (two, phase)
      up = Div (twice, open)
      down = Sub (two, up)
      closed = Mul (leak, phase)
      is_rising = Less (phase, half)
      is_open = Less (phase, open)
      later = Where (is_open, down, closed)
      k = Where (is_rising, up, later)
      dc = Sub (cx, c)
      dh = Sub (hx, h)
      kc = Mul (k, dc)
      kh = Mul (k, dh)
      c1 = Add (c, kc)
      h1 = Add (h, kh)
      yt = Identity (h1)
    }> (h0, c0, x, t)
}"""

    @staticmethod
    def compute(p, x, t, h0, c0):
        def step(at, states):
            h, c = states
            i, o, f, g = (at[0] @ p["w"] + h @ p["r"] + p["b"]).chunk(4, dim=1)
            cx = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            hx = torch.sigmoid(o) * torch.tanh(cx)
            turns = (at[1] - p["shift"]) / p["tau"]
            phase = turns - torch.floor(turns)
            up = 2 * phase / 0.1
            later = torch.where(phase < 0.1, 2 - up, 0.001 * phase)
            k = torch.where(phase < 0.05, up, later)
            c, h = c + k * (cx - c), h + k * (hx - h)
            return [h, c], [h]

        (h, c), (y,) = run(step, [x, t], [h0, c0])
        return {"y": y, "hn": h, "cn": c}


class LayerNorm:
    """An LSTM with layer normalisation of both products, once by LayerNormalization and once in small
    operators, and of c (Ba, Kiros, Hinton 2016)."""

    weights = {
        "w": (I, 4 * H),
        "r": (H, 4 * H),
        "gw": (4 * H,),
        "gr": (4 * H,),
        "br": (4 * H,),
        "gc": (H,),
        "bc": (H,),
    }
    inputs = {"x": "x", "h0": "state", "c0": "state"}
    text = """
m (float[time,batch,6] x, float[batch,8] h0, float[batch,8] c0)
  => (float[time,batch,8] y, float[batch,8] hn, float[batch,8] cn) {
  eps = Constant <value_float = 0.00001> ()
  two = Constant <value_float = 2.0> ()
  hn, cn, y = Scan <num_scan_inputs = 1, body = step
    (float[batch,8] h, float[batch,8] c, float[batch,6] xt)
    => (float[batch,8] h1, float[batch,8] c1, float[batch,8] yt) {
      xw = MatMul (xt, w)
      mean = ReduceMean <axes = [-1]> (xw)
      d = Sub (xw, mean)
      dd = Pow (d, two)
      var = ReduceMean <axes = [1], keepdims = 1> (dd)
      var1 = Add (var, eps)
      dev = Sqrt (var1)
      unit = Div (d, dev)
      xn = Mul (unit, gw)
      hr = MatMul (h, r)
      rn = LayerNormalization <axis = -1> (hr, gr, br)
      sum = Add (xn, rn)
      i0, o0, f0, g0 = Split <axis = 1> (sum)
      i = Sigmoid (i0)
      o = Sigmoid (o0)
      f = Sigmoid (f0)
      g = Tanh (g0)
      fc = Mul (f, c)
      ig = Mul (i, g)
      c1 = Add (fc, ig)
      cn_ = LayerNormalization <axis = 1, epsilon = 0.001> (c1, gc, bc)
      tc = Tanh (cn_)
      h1 = Mul (o, tc)
      yt = Identity (h1)
    }> (h0, c0, x)
}"""

    @staticmethod
    def compute(p, x, h0, c0):
        def step(at, states):
            h, c = states
            xn = layer_norm(at[0] @ p["w"], (4 * H,), p["gw"])
            rn = layer_norm(h @ p["r"], (4 * H,), p["gr"], p["br"])
            i, o, f, g = (xn + rn).chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(layer_norm(c, (H,), p["gc"], p["bc"], 1e-3))
            return [h, c], [h]

        (h, c), (y,) = run(step, [x], [h0, c0])
        return {"y": y, "hn": h, "cn": c}


class Operators:
    """Every element-wise operator at least once; batch first on both sides; a state handed out as it
    came in; a zero state made of the batch's size."""

    weights = {"w": (I, H), "u": (H,), "v": (H,)}
    inputs = {"x": "x_batch_first"}
    text = """
m (float[batch,time,6] x) => (float[batch,time,8] y, float[batch,time,8] before, float[batch,8] sn) {
  size = Shape (x)
  zero = Constant <value_ints = [0]> ()
  batch_size = Gather (size, zero)
  eight = Constant <value_ints = [8]> ()
  dims = Concat <axis = 0> (batch_size, eight)
  s0 = ConstantOfShape (dims)
  low = Constant <value_float = -0.75> ()
  high = Constant <value_float = 0.75> ()
  one = Constant <value_float = 1.0> ()
  three = Constant <value_float = 3.0> ()
  half = Constant <value_float = 0.5> ()
  sn, y, before = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1, 1], body = step
    (float[batch,8] s, float[batch,6] xt)
    => (float[batch,8] s1, float[batch,8] yt, float[batch,8] st) {
      a = MatMul (xt, w)
      b = Abs (a)
      e = Neg (b)
      f = Exp (e)
      g = Max (a, u, s)
      i = Min (g, f)
      j = Add (b, one)
      k = Reciprocal (j)
      l = Greater (a, u)
      n = GreaterOrEqual (s, v)
      o = LessOrEqual (a, s)
      p = And (l, n)
      q = Or (p, o)
      t = Not (q)
      z = Where (t, i, k)
      aa = Clip (a, low, high)
      bb = Pow (aa, three)
      cc = Pow (b, half)
      dd = Add (z, bb)
      ee = Sub (dd, cc)
      ff = Relu (ee)
      gg = Floor (ee)
      hh = Where (l, ff, gg)
      ii = Mul (half, s)
      s1 = Add (ii, hh)
      yt = Tanh (s1)
      st = Identity (s)
    }> (s0, x)
}"""

    @staticmethod
    def compute(p, x):
        def step(at, states):
            s = states[0]
            a = at[0] @ p["w"]
            b = a.abs()
            i = torch.minimum(torch.maximum(torch.maximum(a, p["u"]), s), torch.exp(-b))
            over = a > p["u"]
            t = ~((over & (s >= p["v"])) | (a <= s))
            ee = torch.where(t, i, 1 / (b + 1)) + a.clamp(-0.75, 0.75) ** 3 - b.sqrt()
            nxt = 0.5 * s + torch.where(over, ee.relu(), ee.floor())
            return [nxt], [torch.tanh(nxt), s]

        states, (y, before) = run(step, [x.transpose(0, 1)], [torch.zeros(x.shape[0], H)])
        return {"y": y.transpose(0, 1), "before": before.transpose(0, 1), "sn": states[0]}


class Two:
    """Two Scans whose bodies use the same names, with an embedding inside the first, a value of the
    request from outside in the second (the last state of the first), and a Linear over the last step."""

    weights = {"table": (WORDS, I), "w": (I, H), "r": (H, H), "w2": (H, H), "r2": (H, H), "head": (H, 3)}
    inputs = {"ids": "ids", "h0": "state"}
    text = """
m (int64[time,batch] ids, float[batch,8] h0) => (float[batch,3] p, float[batch,8] hn) {
  last = Constant <value_int = -1> ()
  hn, y = Scan <num_scan_inputs = 1, body = step
    (float[batch,8] h, int64[batch] xt) => (float[batch,8] h1, float[batch,8] yt) {
      e = Gather (table, xt)
      a = MatMul (e, w)
      b = MatMul (h, r)
      c = Add (a, b)
      h1 = Tanh (c)
      yt = Relu (c)
    }> (h0, ids)
  gn, z = Scan <num_scan_inputs = 1, body = step
    (float[batch,8] h, float[batch,8] xt) => (float[batch,8] h1, float[batch,8] yt) {
      a = MatMul (xt, w2)
      b = MatMul (h, r2)
      c0 = Add (a, b)
      c = Add (c0, hn)
      h1 = Sigmoid (c)
      yt = Mul (h1, xt)
    }> (h0, y)
  zl = Gather (z, last)
  q = MatMul (zl, head)
  p = Softmax (q)
}"""

    @staticmethod
    def compute(p, ids, h0):
        def first(at, states):
            c = p["table"][at[0]] @ p["w"] + states[0] @ p["r"]
            return [torch.tanh(c)], [c.relu()]

        (hn,), (y,) = run(first, [ids], [h0])

        def second(at, states):
            h = torch.sigmoid(at[0] @ p["w2"] + states[0] @ p["r2"] + hn)
            return [h], [h * at[0]]

        _, (z,) = run(second, [y], [h0])
        return {"p": torch.softmax(z[-1] @ p["head"], dim=-1), "hn": hn}


MODELS = {
    "scan_lstm": Lstm,
    "scan_lstm_sums": LstmSums,
    "scan_lstm_cell": LstmCell,
    "scan_weighted": Weighted,
    "scan_gru_cell": Gru,
    "scan_phased_lstm": Phased,
    "scan_layer_norm_lstm": LayerNorm,
    "scan_operators": Operators,
    "scan_two": Two,
}


# Served by the tests' own repository, tests/data/models, as well.
SERVED = {"scan_phased_lstm": "phased", "scan_layer_norm_lstm": "normed"}


# ---- Files ------------------------------------------------------------------------------------


def make_weights(name, model):
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    weights = {
        key: (torch.rand(shape, generator=generator) * 2 - 1) * WEIGHT_MAX
        for key, shape in model.weights.items()
    }
    for key, more in getattr(model, "positive", {}).items():
        weights[key] += more
    return weights


def make_input(kind, batch, time, generator):
    def eighths(*shape):
        return torch.randint(-8, 9, shape, generator=generator) / 8

    return {
        "x": lambda: eighths(time, batch, I),
        "x_batch_first": lambda: eighths(batch, time, I),
        "state": lambda: eighths(batch, H),
        "times": lambda: eighths(time, batch, 1).abs().cumsum(0) * 0.625,
        "ids": lambda: torch.randint(0, WORDS, (time, batch), generator=generator),
    }[kind]()


def make_cases(name, model, weights):
    generator = torch.Generator().manual_seed(zlib.crc32(b"cases of " + name.encode()))
    cases = []
    for batch, time in CASES:
        given = {
            key: make_input(kind, batch, time, generator) for key, kind in model.inputs.items()
        }
        outputs = model.compute(weights, **given)
        cases.append(
            {
                "inputs": [tensor(key, value) for key, value in given.items()],
                "outputs": [tensor(key, value) for key, value in outputs.items()],
            }
        )
    return cases


def resize(model, inputs, units):
    """The same model in another size; only of those whose text has no sizes but those of tensors."""

    class Resized(model):
        text = model.text.replace("batch,6]", f"batch,{inputs}]").replace(
            "batch,8]", f"batch,{units}]"
        )
        weights = {
            key: tuple(inputs if n == I else n // H * units for n in shape)
            for key, shape in model.weights.items()
        }

    return Resized


def make_model(model, weights):
    header = f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}]>'
    proto = onnx.parser.parse_model(header + model.text)
    proto.producer_name = "onnx.parser"
    proto.graph.initializer.extend(
        numpy_helper.from_array(value.numpy(), key) for key, value in weights.items()
    )
    onnx.checker.check_model(proto)
    return proto


def serve(folder, out):
    """The same model in the layout of a repository; cases keyed by the tensors' names."""
    (out / "1").mkdir(parents=True, exist_ok=True)
    (out / "1/model.onnx").write_bytes((folder / "model.onnx").read_bytes())
    golden = json.loads((folder / "golden.json").read_text())
    for case in golden["cases"]:
        for side in ("inputs", "outputs"):
            case[side] = {t["name"]: {"shape": t["shape"], "data": t["data"]} for t in case[side]}
    (out / "golden.json").write_text(json.dumps(golden) + "\n")


def write_one(name, size, path):
    inputs, units = (int(n) for n in size.split("x"))
    model = resize(MODELS[name], inputs, units)
    weights = make_weights(name, model)
    scale = 1 / units**0.5 / WEIGHT_MAX
    small = {k: v * scale if k in ("w", "r") else v for k, v in weights.items()}
    onnx.save(make_model(model, small), str(path))


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/onnx")
    parser.add_argument("--models", type=pathlib.Path, default=root / "tests/data/models")
    parser.add_argument("--one", metavar="NAME", help="write only this model, to --out, a file")
    parser.add_argument("--size", default="512x512", help="INPUTSxUNITS of --one")
    options = parser.parse_args()
    out = options.out
    if options.one:
        write_one(options.one, options.size, out)
        return
    version = ".".join(onnx.__version__.split(".")[:2])
    for name, model in MODELS.items():
        folder = out / f"{name}-parser{version}-op{OPSET}"
        folder.mkdir(parents=True, exist_ok=True)
        weights = make_weights(name, model)
        cases = make_cases(name, model, weights)
        onnx.save(make_model(model, weights), str(folder / "model.onnx"))
        worst, runtime = difference(folder / "model.onnx", cases)
        assert worst < TOLERANCE, f"{name}: outputs differ from onnxruntime's by {worst:.2g}"
        about = {"module": name, "what": " ".join(model.__doc__.split()), "torch": "-"}
        about.update({"exporter": "onnx.parser", "opset": OPSET, "constant_folding": True})
        (folder / "golden.json").write_text(make_golden(about, (worst, runtime), cases))
        if name in SERVED:
            serve(folder, options.models / SERVED[name])
        print(f"{folder.name}: differs by {worst:.2g}")


if __name__ == "__main__":
    main()
