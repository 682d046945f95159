"""Exported networks: made once, whole or not at all."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from torch import nn

from seesay.errors import SeesayError
from seesay.onnx import Packaged, Session, _refused, compute, onnx_session
from tests.waiting import waited


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def export(build: object = None, axes: dict[str, dict[int, str]] | None = None) -> Path:
    build = build or (lambda: nn.Sequential(nn.Dropout(0.5), nn.Softmax(dim=-1)))
    example = [np.zeros((1, 4), np.float32)]
    return Packaged("soft", build, example, ["x"], ["y"], axes or {}).file()  # type: ignore[arg-type]


def test_a_network_is_exported_once_in_evaluation_mode(cache: Path) -> None:
    path = export()
    assert path == cache / "onnx" / "soft.onnx"
    assert list(path.parent.iterdir()) == [path]

    def unwanted() -> nn.Module:
        raise AssertionError("it is in the cache")

    assert export(unwanted) == path
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)  # the first axis is free
    (y,) = onnx_session(path, 1, "copy it again").run(None, {"x": x})
    np.testing.assert_allclose(y, torch.from_numpy(x).softmax(-1), rtol=1e-5)


def test_named_axes_are_free() -> None:
    session = onnx_session(export(axes={"x": {1: "width"}, "y": {1: "width"}}), 1, "copy it again")
    assert session.run(None, {"x": np.zeros((2, 9), np.float32)})[0].shape == (2, 9)


def test_a_network_computes_while_another_one_is_opened() -> None:
    example = [np.zeros((1, 4), np.float32)]
    is_opening, goes_on = threading.Event(), threading.Event()

    def slow() -> nn.Module:
        is_opening.set()
        goes_on.wait()
        return nn.Softmax(dim=-1)

    ready, other = (Packaged(name, slow, example, ["x"], ["y"]) for name in ("ready", "other"))
    goes_on.set()
    ready.run({"x": example[0]})
    is_opening.clear()
    goes_on.clear()
    with ThreadPoolExecutor(2) as threads:
        opened = threads.submit(other.run, {"x": example[0]})
        is_opening.wait()
        try:
            assert threads.submit(ready.run, {"x": example[0]}).result(60)[0].shape == (1, 4)
        finally:
            goes_on.set()
        assert opened.result()[0].shape == (1, 4)


def test_a_failed_export_leaves_nothing_behind(cache: Path) -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no such shape")

    with pytest.raises(ValueError, match="no such shape"):
        export(Broken)
    assert list((cache / "onnx").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(SeesayError, match="set SEESAY_CACHE"):
        export()


def test_a_file_that_the_disk_does_not_return_is_not_to_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("system error number 5: Input/output error")  # as ONNX Runtime has it

    monkeypatch.setattr(onnxruntime, "InferenceSession", failing)
    with pytest.raises(SeesayError, match=r"soft\.onnx: cannot be read \(Input/output error\)") as raised:
        onnx_session(export(), 1, "copy it again")
    assert "delete" not in str(raised.value)


def test_a_disk_that_fails_while_it_reads_is_not_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        failed = Mock(side_effect=OSError(5, "Input/output error"))
        monkeypatch.setattr("seesay.paths.open_file", failed)
        raise RuntimeError("Protobuf parsing failed")  # as ONNX Runtime has it

    monkeypatch.setattr(onnxruntime, "InferenceSession", failing)
    with pytest.raises(SeesayError, match=r"soft\.onnx: cannot be read \(Input/output error\)"):
        onnx_session(export(), 1, "copy it again")


def test_a_field_that_ends_beyond_the_file_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for data in (b"\x08\x08\x3a\xff\xff\xff\x7f", b"\x02\x00" * 8):  # 0 is the number of no field
        path.write_bytes(data)
        with pytest.raises(SeesayError, match=r"model\.onnx: damaged"):
            onnx_session(path, 1, "copy it again")
        with pytest.raises((IndexError, ValueError)):
            list(_refused(memoryview(data)))


@pytest.mark.parametrize("keep", [0, 10, -20])
def test_a_damaged_file_is_named(keep: int) -> None:
    path = export()
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(SeesayError, match=r"soft\.onnx: damaged; copy it again"):
        onnx_session(path, 1, "copy it again")


def test_a_damaged_export_is_made_again_once_it_is_deleted() -> None:
    example = [np.zeros((1, 4), np.float32)]
    network = Packaged("soft", lambda: nn.Softmax(dim=-1), example, ["x"], ["y"])
    network.file().write_bytes(b"damaged")
    with pytest.raises(SeesayError, match="damaged; delete it; with PyTorch it is exported again"):
        network.run({"x": example[0]})
    network.file().unlink()
    assert network.run({"x": example[0]})[0].sum() == pytest.approx(1)


def graph_of(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    whole = helper.make_tensor("count", TensorProto.INT64, [], [2**62])
    here = helper.make_tensor("on", TensorProto.BOOL, [], [True])
    given = helper.make_tensor_value_info("images", TensorProto.FLOAT, [None, 4])
    return helper.make_graph(
        nodes,
        "graph",
        [given],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [whole, here],
    )


def same(*names: str) -> onnx.NodeProto:
    return helper.make_node("Identity", [names[0]], [names[1]])


def endless() -> onnx.NodeProto:
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [same("on", "still"), same("x", "y")],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("on", TensorProto.BOOL, []),
            info("x", TensorProto.FLOAT, None),
        ],
        [info("still", TensorProto.BOOL, []), info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_node("Loop", ["count", "on", "images"], ["out"], body=body)


@pytest.mark.parametrize(
    ("node", "functions", "said"),
    [
        (endless(), [], "contains the operator 'Loop'"),
        (helper.make_node("Mine", ["images"], ["out"], domain="mine"), [], "operator of the domain 'mine'"),
        (
            same("images", "out"),
            [helper.make_function("", "Identity", ["a"], ["b"], [same("a", "b")], [])],
            "contains a function",
        ),
    ],
)
def test_what_may_compute_without_end_is_not_opened(
    tmp_path: Path, node: onnx.NodeProto, functions: list[onnx.FunctionProto], said: str
) -> None:
    model = helper.make_model(graph_of(node), functions=functions)
    onnx.save(model, tmp_path / "images.onnx")
    with pytest.raises(SeesayError, match=said):
        onnx_session(tmp_path / "images.onnx", 1, "copy it again")
    onnx.save(helper.make_model(graph_of(same("images", "out")), ir_version=10), tmp_path / "images.onnx")
    assert onnx_session(tmp_path / "images.onnx", 1, "copy it again").get_inputs()[0].name == "images"


def expanded(side: int, products: int) -> onnx.GraphProto:
    """A square of that side, multiplied with itself that often: hours of work in few bytes."""
    nodes = [helper.make_node("Expand", ["x", "sides"], ["square0"])]
    for i in range(products):
        nodes.append(helper.make_node("MatMul", [f"square{i}", "square0"], [f"square{i + 1}"]))
    nodes.append(helper.make_node("ReduceMax", [f"square{products}"], ["out"], keepdims=0))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [])
    sides = helper.make_tensor("sides", TensorProto.INT64, [2], [side, side])
    return helper.make_graph(nodes, "graph", [given], [out], [sides])


ONE, GRAPH = {"x": np.ones(1, np.float32)}, Path("graph.onnx")


def opened_with(folder: Path, side: int, products: int) -> onnxruntime.InferenceSession:
    onnx.save(helper.make_model(expanded(side, products), ir_version=10), folder / "images.onnx")
    return onnx_session(folder / "images.onnx", 1, "copy it again")


def none_computes() -> bool:
    return all(thread.name != "seesay-network" for thread in threading.enumerate())


def test_a_network_that_computes_for_hours_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened_with(tmp_path, 800, 5_000)
    monkeypatch.setattr("seesay.onnx.MOST_SECONDS", 0.2)
    with pytest.raises(SeesayError, match=r"^graph\.onnx: has computed for 0\.2 seconds"):
        compute(GRAPH, session, ONE)
    waited(none_computes)


def test_a_signal_ends_the_wait_for_a_network(tmp_path: Path) -> None:
    """As Ctrl-C does, which Python handles only between its own steps."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    session, before = opened_with(tmp_path, 800, 5_000), signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            compute(GRAPH, session, ONE)
    finally:
        signal.signal(signal.SIGALRM, before)
    waited(none_computes)


def test_the_memory_of_networks_is_limited(tmp_path: Path) -> None:
    """Also of an encoder's, which a run may have brought."""
    assert compute(GRAPH, opened_with(tmp_path, 10, 1), ONE)[0] == 10
    opened_with(tmp_path, 50_000, 0)
    with pytest.raises(SeesayError, match=r"images\.onnx: cannot be computed .*smaller than requested bytes"):
        Session(tmp_path / "images.onnx", 1).run(ONE)


@given(st.binary(max_size=60))
def test_no_bytes_make_reading_a_graph_fail_otherwise(data: bytes) -> None:
    with suppress(ValueError, IndexError):
        list(_refused(memoryview(data)))
