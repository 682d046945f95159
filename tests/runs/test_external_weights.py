"""Graphs that read their weights from safetensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from safetensors.numpy import save_file

from seesay.runs.external_weights import StoredTensors, refer_to_weights

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
BIAS = np.array([0.5, -1, 2], np.float32)
OTHER = np.full(3, 7, np.float32)


@pytest.fixture(params=["F32", "F16"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> StoredTensors:
    kind = {"F32": np.float32, "F16": np.float16}[request.param]
    tensors = {"table": TABLE.astype(kind), "bias": BIAS.astype(kind), "count": np.array([3])}
    save_file(tensors, tmp_path / "weights.safetensors", {"about": "a test"})
    return StoredTensors.read(tmp_path / "weights.safetensors")


def model(**weights: np.ndarray) -> onnx.ModelProto:
    """Rows of a table plus a bias and another vector, beside the sum of the whole table."""
    nodes = [
        helper.make_node("Gather", ["m.table", "rows"], ["found"]),
        helper.make_node("Add", ["found", "m.bias"], ["moved"]),
        helper.make_node("Add", ["moved", "m.other"], ["output"]),
        helper.make_node("ReduceSum", ["m.table"], ["total"], keepdims=0),
    ]
    single, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("rows", whole, ["n"])],
        [
            helper.make_tensor_value_info("output", single, ["n", 3]),
            helper.make_tensor_value_info("total", single, []),
        ],
        [onnx.numpy_helper.from_array(value, f"m.{name}") for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_header_says_where_tensors_lie(stored: StoredTensors) -> None:
    assert stored.metadata == {"about": "a test"}
    assert set(stored.tensors) == {"table", "bias", "count"}
    np.testing.assert_array_equal(stored.load(stored.tensors["table"]), TABLE)
    assert stored.load(stored.tensors["bias"]).dtype == np.float32


def test_a_graph_reads_the_weights_of_the_file(stored: StoredTensors) -> None:
    graph = model(table=TABLE, bias=BIAS, other=OTHER)
    refer_to_weights(graph, stored, "m.")
    places = {each.name.removesuffix(".half"): each.data_location for each in graph.graph.initializer}
    external = onnx.TensorProto.EXTERNAL
    assert places == {"m.table": external, "m.bias": external, "m.other": onnx.TensorProto.DEFAULT}
    path = stored.path.with_name("graph.onnx")
    path.write_bytes(graph.SerializeToString())
    onnx.checker.check_model(path)
    rows, total = onnxruntime.InferenceSession(path).run(None, {"rows": np.array([3, 0])})
    np.testing.assert_array_equal(rows, TABLE[[3, 0]] + BIAS + OTHER)
    assert total == TABLE.sum()


@pytest.mark.parametrize("table", [TABLE + 1, TABLE[:2], TABLE.astype(np.float64)])
def test_what_is_another_tensor_stays_in_the_graph(stored: StoredTensors, table: np.ndarray) -> None:
    graph = model(table=table, bias=OTHER)
    refer_to_weights(graph, stored, "m.")
    assert all(each.data_location == onnx.TensorProto.DEFAULT for each in graph.graph.initializer)
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(graph.graph.initializer[0]), table)
