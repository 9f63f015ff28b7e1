"""One walk over an ONNX file, shared by the export tools."""

import onnx


def all_nodes(graph):
    """Every node of the graph and of the graphs inside its nodes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g)
