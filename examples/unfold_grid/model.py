"""The cells of a recurrent network over two dimensions, exported for the plug-in unfold.c beside this file."""
import pathlib, torch

FEATURES, HIDDEN, CLASSES = 3, 16, 4  # as in unfold.c


class Grid(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = torch.nn.Linear(FEATURES + 2 * HIDDEN, 2 * HIDDEN)

    def forward(self, x, above, left):
        z, n = self.gates(torch.cat([x, above, left], 1)).chunk(2, 1)
        z = torch.sigmoid(z)
        return z * (above + left) * 0.5 + (1 - z) * torch.tanh(n)


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(HIDDEN, CLASSES)

    def forward(self, h):
        return torch.softmax(self.linear(h), 1)


def export(module, name, widths, output):
    names = list(widths)
    examples = tuple(torch.zeros(2, width) for width in widths.values())
    torch.onnx.export(module, examples, f"my-models/grid/1/{name}.onnx", input_names=names,
                      output_names=[output], dynamic_axes={n: {0: "rows"} for n in names + [output]})


torch.manual_seed(3)
grid, head = Grid().eval(), Head().eval()
if __name__ == "__main__":
    pathlib.Path("my-models/grid/1").mkdir(parents=True, exist_ok=True)
    pathlib.Path("my-models/grid/config.yaml").write_text("unfold: plugin\ncells: grid,head\n")
    export(grid, "grid", {"x": FEATURES, "above": HIDDEN, "left": HIDDEN}, "h")
    export(head, "head", {"h": HIDDEN}, "scores")
