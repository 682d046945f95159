"""ONNX graphs whose weights stay where they are: in a file of safetensors beside the graph."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

_SINGLE, _HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
_TYPES = {"F32": (_SINGLE, "<f4"), "F16": (_HALF, "<f2")}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file: its type as safetensors names it, its shape, its first byte and its size."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """The tensors of a file of safetensors, and the file's metadata."""

    path: Path
    tensors: Mapping[str, StoredTensor]
    metadata: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> StoredTensors:
        """Read the header: its length in eight bytes, then JSON, in front of the tensors."""
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header: dict[str, Any] = json.loads(file.read(size))
        metadata = header.pop("__metadata__", {})
        tensors = {}
        for name, about in header.items():
            start, stop = about["data_offsets"]
            tensors[name] = StoredTensor(
                about["dtype"], tuple(about["shape"]), 8 + size + start, stop - start
            )
        return cls(path, tensors, metadata)

    def load(self, tensor: StoredTensor) -> NDArray[np.float32]:
        """Read a tensor in single precision."""
        kind, count = _TYPES[tensor.dtype][1], math.prod(tensor.shape)
        rows = np.fromfile(self.path, kind, count, offset=tensor.offset)
        return rows.reshape(tensor.shape).astype(np.float32)


def refer_to_weights(model: onnx.ModelProto, stored: StoredTensors, prefix: str) -> None:
    """Make the initializers of a graph that are tensors of the file refer to it, in place.

    One in half precision is converted where it is used: behind the lookup, for the rows of an embedding.
    What is no plain tensor of the file stays in the graph.

    Args:
        model: in single precision, to be saved beside the file.
        stored: the file's tensors.
        prefix: what stands before a tensor's name in the name of its initializer.
    """
    graph = model.graph
    for initializer in graph.initializer:
        tensor = stored.tensors.get(initializer.name.removeprefix(prefix))
        if tensor is None or not _is_same(initializer, tensor, stored):
            continue
        initializer.ClearField("raw_data")
        initializer.ClearField("float_data")
        initializer.data_location = onnx.TensorProto.EXTERNAL
        place = {"location": stored.path.name, "offset": tensor.offset, "length": tensor.length}
        for key, value in place.items():
            initializer.external_data.add(key=key, value=str(value))
        if tensor.dtype == "F16":
            name, initializer.name = initializer.name, f"{initializer.name}.half"
            initializer.data_type = _HALF
            _convert(graph, name, initializer.name)


def _is_same(initializer: onnx.TensorProto, tensor: StoredTensor, stored: StoredTensors) -> bool:
    """Whether an initializer is that tensor."""
    if initializer.data_type != _SINGLE or tensor.dtype not in _TYPES:
        return False
    shape = tuple(initializer.dims)
    return shape == tensor.shape and np.array_equal(
        onnx.numpy_helper.to_array(initializer), stored.load(tensor), equal_nan=True
    )


def _convert(graph: onnx.GraphProto, name: str, half: str) -> None:
    """Take the weights `name` from `half`, those in half precision."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes.append(node)
        if node.op_type == "Gather" and node.input[0] == name:
            rows = node.output[0]
            node.input[0], node.output[0] = half, f"{rows}.half"
            nodes.append(onnx.helper.make_node("Cast", [node.output[0]], [rows], to=_SINGLE))
    if any(name in node.input for node in nodes) or _in_subgraphs(nodes, name):
        nodes.insert(0, onnx.helper.make_node("Cast", [half], [name], to=_SINGLE))
    del graph.node[:]
    graph.node.extend(nodes)


def _in_subgraphs(nodes: list[onnx.NodeProto], name: str) -> bool:
    """Whether a graph inside one of the nodes takes that input."""
    inner = [attribute.g.node for node in nodes for attribute in node.attribute if attribute.HasField("g")]
    return any(name in node.input or _in_subgraphs([node], name) for some in inner for node in some)
