"""What both quantisers share: writing ONNX graphs, reading the outputs of their layers, 8-bit weights."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8  # old enough for every ONNX Runtime that seesay supports
MICROSOFT = "com.microsoft"  # the domain of ONNX Runtime's own operators, which every CPU build has

Floats = NDArray[np.float32]


class GraphWriter:
    """Collects the nodes and constants of a graph in the order in which they are written."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node of one output; return the output's name."""
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, value: NDArray[Any] | np.generic) -> str:
        """Add a constant; return its name."""
        self.constants[name] = np.asarray(value)
        return name

    def save(self, like: Any, path: Path) -> None:
        """Check and write the model, with the inputs and outputs of the graph `like`."""
        tensors = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, path.stem, list(like.input), list(like.output), tensors)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        onnx.checker.check_model(model)
        path.write_bytes(model.SerializeToString(deterministic=True))


def optimise(path: Path) -> None:
    """Replace a model by its optimised form, which ONNX Runtime opens in two thirds of the time.

    Only optimisations that are valid on every processor are applied; the outputs are the same, bit for bit.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder, path.name))
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        model = onnx.load(options.optimized_model_filepath)
    domains = {node.domain for node in model.graph.node}
    kept = [each for each in model.opset_import if each.domain in domains]  # others may be unknown elsewhere
    del model.opset_import[:]
    model.opset_import.extend(kept)
    path.write_bytes(model.SerializeToString(deterministic=True))


def constants_of(graph: Any) -> dict[str, NDArray[Any]]:
    """Return the constants of a graph by name."""
    return {each.name: numpy_helper.to_array(each) for each in graph.initializer}


def session_with_outputs(model: Any, names: Iterable[str]) -> Any:
    """Open a session of a model that also returns the tensors of those names."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for name in names:
        copy.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the order of sums, and so the files, must not depend on the machine
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])


def eight_bits(
    weights: Floats, least: Floats | float = 1e-9, paired: bool = True
) -> tuple[NDArray[np.int8], Floats]:
    """Round weights (n, …) to 8 bits with one scale per row; return them and the scales (n,).

    Processors with AVX2 but without VNNI add two products of an activation (0 to 255) and a weight in 16
    bits, and saturate. With `paired`, the scale is such that no two weights of a row add up to more than
    128 in absolute value, so that no sum saturates and every processor computes the same.

    Args:
        weights: the weights.
        least: the least scale, for all rows or for each.
        paired: leave room for sums of two products.
    """
    rows = np.asarray(weights, np.float32).reshape(len(weights), -1)
    scales = np.maximum(np.abs(rows).max(axis=1) / 127, least)
    if paired:
        scales = np.maximum(scales, _largest_pair(rows) / 128)
    while True:
        scales = scales.astype(np.float32)
        rounded = np.clip(np.rint(rows / scales[:, None]), -128, 127)
        over = _largest_pair(rounded) > 128
        if not (paired and over.any()):
            return rounded.astype(np.int8).reshape(weights.shape), scales
        scales[over] *= 1.002  # rounding may have added a half to both


def _largest_pair(rows: Floats) -> Floats:
    """Compute the largest sum of two numbers of one sign in each row, (n,)."""
    ends = np.sort(rows, axis=1)
    high = np.maximum(ends[:, -2:], 0).sum(axis=1)
    low = np.minimum(ends[:, :2], 0).sum(axis=1)
    return np.asarray(np.maximum(high, -low), np.float32)
