"""Models whose sequences come in parts, at random."""

import random

import numpy
import onnxruntime
from onnx import TensorProto, helper

from random_chains import Chains, run, save, session_of
from random_graph import WIDTHS, either


class Streams(Chains):
    """Nodes forwards over one sequence, windows beside their own steps, strides, several steps made of each, attention to
    steps around them, numbers of steps: asked as a whole, and as a session part by part, whose answers one behind the other have the whole's bits."""

    directions, backwards = ["forward"], 0
    config = "states: recurrent\nmax-sequence-length: 60"

    def __init__(self, seed):
        super().__init__(seed)
        self.time = "time"

    def initial(self, width, *lead):
        """Zeros, or learned: a session begins with no others."""
        if self.rng.random() < 0.4:
            of = self.pick("seq")
            batch = self.node("Gather", [self.node("Shape", [of.name]), self.integers(1)], axis=0)
            shape = self.node("Concat", [self.integers(*lead), batch, self.integers(width)], axis=0) if lead \
                else self.node("Concat", [batch, self.integers(width)], axis=0)
            self.notes.append("a learned state")
            return self.node("Expand", [self.floats(*lead, 1, width), shape])
        kept, self.values = self.values, [value for value in self.values if value.kind == "seq"]
        name = super().initial(width, *lead)
        self.values = kept + self.values[len([value for value in kept if value.kind == "seq"]):]
        return name

    def shrink(self):
        """A convolution or a pool with strides, or without padding. The steps that it leaves are all that there is then."""
        rng = self.rng
        value = self.some("seq")
        name = self.node("Transpose", [value.name], perm=[1, 2, 0])
        taps, stride = rng.randrange(1, 6), rng.choice([1, 1, 2, 3])
        pads = [rng.randrange(taps), rng.randrange(taps)] if rng.random() < 0.6 else [0, 0]
        width, attributes = value.width, {"kernel_shape": [taps], "pads": pads, "strides": [stride]}
        if rng.random() < 0.7:
            width = rng.choice(WIDTHS)
            weights = self.floats(width, value.width, taps, scale=(3.0 / (value.width * taps)) ** 0.5)
            name = self.node("Conv", [name, weights], **attributes)
        else:
            name = self.node("MaxPool", [name], **attributes)
        self.notes.append(f"{taps} taps, {pads}, by {stride}")
        self.values = []
        self.add(self.node("Transpose", [name], perm=[2, 0, 1]), "seq", width, 4 * value.most + 1)

    def grown(self, name, width, by):
        """[batch, width, steps], of each step so many: a transposed convolution, or repeated, or between two. Its name and width."""
        rng = self.rng
        kind = rng.choice(["ConvTranspose", "ConvTranspose", "nearest", "linear"])
        self.notes.append(f"{by} of each by {kind}")
        if kind != "ConvTranspose":
            where = "asymmetric" if kind == "nearest" else rng.choice(["half_pixel", "asymmetric"])
            scales = self.constant(numpy.array([1, 1, by], numpy.float32))
            return self.node("Resize", [name, "", scales], mode=kind, coordinate_transformation_mode=where,
                             nearest_mode="floor"), width
        taps, made = by + rng.randrange(2 * by + 1), rng.choice(WIDTHS)
        more = rng.randrange(taps - by + 1)
        before = rng.randrange(more + 1)
        inputs = [name, self.floats(width, made, taps, scale=(3.0 / (width * taps)) ** 0.5)]
        inputs += [self.floats(made)] if rng.random() < 0.5 else []
        return self.node("ConvTranspose", inputs, kernel_shape=[taps], strides=[by], pads=[before, more - before],
                         output_padding=[rng.randrange(by)]), made

    def grow(self):
        """What is made of each step is all that there is then."""
        value = self.some("seq")
        name, width = self.grown(self.node("Transpose", [value.name], perm=[1, 2, 0]), value.width, self.rng.randrange(2, 5))
        self.values = []
        self.add(self.node("Transpose", [name], perm=[2, 0, 1]), "seq", width, 4 * value.most + 1)

    def hourglass(self):
        """Down by a stride and up again, cut to what there was, beside a shortcut."""
        rng = self.rng
        value, by, kept = self.some("seq"), rng.randrange(2, 5), self.values
        name = self.node("Transpose", [value.name], perm=[1, 2, 0])
        width = rng.choice(WIDTHS)
        taps = by + rng.randrange(by)
        weights = self.floats(width, value.width, taps, scale=(3.0 / (value.width * taps)) ** 0.5)
        before = rng.randrange(by, taps + by)
        name = self.node("Conv", [name, weights], kernel_shape=[taps], strides=[by], pads=[before, taps + by - before])
        self.values = []
        self.add(self.node("Transpose", [name], perm=[2, 0, 1]), "seq", width, 4 * value.most + 1)
        if rng.random() < 0.6:
            self.recurrent()
        inner = self.some("seq")
        name, width = self.grown(self.node("Transpose", [inner.name], perm=[1, 2, 0]), inner.width, by)
        name = self.node("Transpose", [name], perm=[2, 0, 1])
        size = self.node("Gather", [self.node("Shape", [value.name]), self.integers(0)])
        name = self.node("Slice", [name, self.integers(0), size, self.integers(0)])
        self.notes.append(f"an hourglass by {by}")
        self.values = kept
        grown = value._replace(name=name, width=width, most=4 * inner.most + 1)
        self.add(self.node("Add", either(self, value.name, self.fit(grown, value.width).name)), "seq", value.width,
                 value.most + 8 * inner.most + 2)

    def shift(self):
        """The steps before, or what a convolution padded on both sides has left when its end is cut off."""
        value, n = self.some("seq"), self.rng.randrange(1, 4)
        if self.rng.random() < 0.5:
            name = self.node("Pad", [value.name, self.integers(n, 0, 0, -n, 0, 0)])
        else:
            name = self.node("Transpose", [value.name], perm=[1, 2, 0])
            weights = self.floats(value.width, value.width, n + 1, scale=(3.0 / (value.width * (n + 1))) ** 0.5)
            name = self.node("Conv", [name, weights], kernel_shape=[n + 1], pads=[n, n])
            name = self.node("Transpose", [name], perm=[2, 0, 1])
            name = self.steps_of(value._replace(name=name), 0, -n)
        self.notes.append(f"shifted by {n}")
        self.add(name, "seq", value.width, 4 * value.most + 1)

    def numbers(self, value, first=0):
        """Of its steps, from `first` on."""
        size = self.node("Gather", [self.node("Shape", [value.name]), self.constant(numpy.int64(0))])
        if first != 0:
            size = self.node("Add", [size, self.constant(numpy.int64(first))])
        return self.node("Range", [self.constant(numpy.int64(first)), size, self.constant(numpy.int64(1))])

    def attend(self):
        """Each step to some before it, or all, and to some behind it."""
        rng = self.rng
        value, keys = self.some("seq"), self.some("seq")
        width, back, ahead = rng.choice(WIDTHS), rng.choice([None, 0, 1, 3, 6]), rng.choice([0, 0, 0, 1, 4])
        query = self.linear(value, width) if rng.random() < 0.8 else value
        key, content = self.fit(self.linear(keys, width), query.width), keys if rng.random() < 0.4 else self.linear(keys, width)
        turned = [self.node("Transpose", [v.name], perm=perm) for v, perm in
                  ((query, [1, 0, 2]), (key, [1, 2, 0]), (content, [1, 0, 2]))]
        scores = self.node("Mul", [self.node("MatMul", turned[:2]), self.constant(numpy.float32(width**-0.5))])
        number = self.numbers(value)
        apart = self.node("Sub", [self.node("Unsqueeze", [number, self.integers(0)]), self.node("Unsqueeze", [number, self.integers(1)])])
        masked = self.node("Greater", [apart, self.constant(numpy.int64(ahead))])
        if back is not None:
            masked = self.node("Or", either(self, masked, self.node("Less", [apart, self.constant(numpy.int64(-back))])))
        scores = self.node("Where", [masked, self.constant(numpy.float32(-1e9)), scores])
        name = self.node("MatMul", [self.node("Softmax", [scores], axis=-1), turned[2]])
        self.notes.append(f"attends to {back} back, {ahead} ahead")
        self.add(self.node("Transpose", [name], perm=[1, 0, 2]), "seq", content.width, content.most)

    def place(self):
        """The step's number among its features: a sine of it, or its reciprocal."""
        value = self.some("seq")
        if self.rng.random() < 0.6:
            number = self.node("Cast", [self.numbers(value)], to=TensorProto.FLOAT)
            number = self.node("Sin", [self.node("Mul", [number, self.constant(numpy.float32(0.37))])])
        else:
            number = self.node("Reciprocal", [self.node("Cast", [self.numbers(value, 1)], to=TensorProto.FLOAT)])
        number = self.node("Unsqueeze", [number, self.integers(1, 2)])
        self.notes.append("numbers")
        self.add(self.node("Add", either(self, value.name, number)), "seq", value.width, value.most + 1)

    def write(self, folder):
        rng = self.rng
        infos = [self.input("x0", "seq", rng.choice(WIDTHS))]
        for _ in range(rng.randrange(1, 4)):
            for _ in range(rng.randrange(0, 3)):
                self.op()
            for what, part in ((self.window, 0.6), (self.shrink, 0.3), (self.shift, 0.4), (self.recurrent, 0.4), (self.scan, 0.3),
                               (self.attend, 0.35), (self.place, 0.25), (self.grow, 0.15), (self.hourglass, 0.2)):
                if rng.random() < part:
                    what()
        last = [value for value in self.values if value.kind == "seq"][-4:]
        picked = rng.sample(last, min(len(last), rng.randrange(1, 3)))
        outputs = []
        for i, value in enumerate(picked):
            self.nodes.append(helper.make_node("Identity", [value.name], [f"y{i}"]))
            outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, ["left", self.batch, value.width]))
        save(self, infos, outputs, folder / "1" / "model.onnx")

    def feeds(self, rng):
        for _ in range(6):
            batch = int(rng.integers(1, 4)) if self.batch == "batch" else 1
            (name, _, width), time_ = self.inputs[0], int(rng.integers(16, 29))
            shape = (batch, time_, width) if name in self.batch_first else (time_, batch, width)
            yield {name: rng.uniform(-1, 1, shape).astype(numpy.float32)}

    def requests(self, folder, rng):
        session = session_of(folder / "1" / "model.onnx")
        for feed in self.feeds(rng):
            try:
                wanted = run(session, feed)
            except onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument:
                continue  # strides and windows leave too few steps for the last of them
            if all(answer.size > 0 for answer in wanted.values()):
                yield feed, wanted

    def ask_in_parts(self, ask, port, model, feed):
        right = ask(port, model, feed)
        if isinstance(right, str):
            return right
        ((name, whole),) = feed.items()
        axis, at, answers = 1 if name in self.batch_first else 0, 0, []
        rng = random.Random(float(whole.ravel()[0]))
        is_known = rng.random() < 0.7  # that a part is the last; else one without steps comes behind it
        is_over = False
        while not is_over:
            end = min(whole.shape[axis], at + rng.choice([1, 1, 2, 3, 7]))
            is_over = end == whole.shape[axis] and (is_known or at == end)
            part = {name: whole.take(range(at, end), axis)}
            parameters = {"sequence_id": f"{whole.ravel()[:3].tolist()}", "sequence_start": at == 0,
                          "sequence_end": is_over}
            answers.append(ask(port, model, part, parameters))
            if isinstance(answers[-1], str) and at == end and "an empty sequence" in answers[-1]:
                answers.pop()  # nothing waits for it, and the session is left to time out
            elif isinstance(answers[-1], str):
                return answers[-1]
            at = end
        for output, want in right.items():
            got = numpy.concatenate([answer[output] for answer in answers], 0)
            if not numpy.array_equal(got, want, equal_nan=True):
                return f"{output}: other bits in parts of {[len(answer[output]) for answer in answers]} steps"
        return right
