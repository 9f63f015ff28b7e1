"""What serving.py asks, in DyNet, which batches by itself what it finds alike in the graphs of a group
(its `autobatch`; Neubig, Goldberg, Dyer, On-the-fly Operation Batching in Dynamic Computation Graphs).
The graph of every request is built anew, as its users do. It has one thread for these."""

import importlib.metadata

MEMORY_MB = 4096  # of a group's graphs


def load(numpy):
    import dynet_config

    dynet_config.set(autobatch=1, mem=MEMORY_MB, random_seed=1)
    import dynet

    for name in ("dyNET", "dyNET38"):
        try:
            return dynet, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return dynet, "of unknown version"


class DynetPeer:
    def __init__(self, inputs, hidden, longest):
        import numpy

        self.numpy, self.hidden = numpy, hidden
        self.dynet, self.version = load(numpy)
        self.parameters = self.dynet.ParameterCollection()
        self.source = numpy.random.default_rng(2).standard_normal((longest, inputs), numpy.float32)

    def begin(self):
        self.dynet.renew_cg(immediate_compute=False, check_validity=False)

    def inputs(self, steps):
        return [self.dynet.inputTensor(row) for row in self.source[:steps]]

    def answer(self, expressions):
        self.dynet.forward(expressions)
        return [one.npvalue() for one in expressions]


class DynetLstm(DynetPeer):
    def __init__(self, inputs, hidden, longest, threads):
        super().__init__(inputs, hidden, longest)
        self.lstm = self.dynet.VanillaLSTMBuilder(1, inputs, hidden, self.parameters)

    def call(self, way, group):
        self.begin()
        last = []
        for steps, _ in group:
            last.append(self.lstm.initial_state().transduce(self.inputs(steps))[-1])
        return self.answer(last)


class DynetTree(DynetPeer):
    def __init__(self, inputs, hidden, longest, threads):
        super().__init__(inputs, hidden, longest)
        weight = self.parameters.add_parameters
        self.leaf = [[weight((hidden,)), weight((hidden, inputs))] for _ in range(3)]
        sizes = [(hidden,), (hidden, hidden), (hidden, hidden)]
        self.node = [[weight(size) for size in sizes] for _ in range(5)]

    def join(self, left, right):
        (h_l, c_l), (h_r, c_r) = left, right
        dynet = self.dynet
        sums = [dynet.affine_transform([b, w_l, h_l, w_r, h_r]) for b, w_l, w_r in self.node]
        i, o, f_l, f_r = [dynet.logistic(gate) for gate in sums[:4]]
        c = dynet.cmult(i, dynet.tanh(sums[4])) + dynet.cmult(f_l, c_l) + dynet.cmult(f_r, c_r)
        return dynet.cmult(o, dynet.tanh(c)), c

    def grow(self, leaves, tree):
        dynet, done, rows = self.dynet, [], iter(self.inputs(leaves))
        for level, (left, right) in zip(tree.levels.tolist(), tree.kids.tolist()):
            if level > 0:
                done.append(self.join(done[left], done[right]))
                continue
            x = next(rows)
            i, o, u = [dynet.affine_transform([b, w, x]) for b, w in self.leaf]
            c = dynet.cmult(dynet.logistic(i), dynet.tanh(u))
            done.append((dynet.cmult(dynet.logistic(o), dynet.tanh(c)), c))
        return done[-1][0]

    def call(self, way, group):
        self.begin()
        return self.answer([self.grow(leaves, tree) for leaves, tree in group])
