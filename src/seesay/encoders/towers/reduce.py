"""Towers copied into a run's folder, where they need no library: as they are, or with smaller weights.

Weights of 8 bits are computed with, those of 16 are for the size alone.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.spec import EXPORTED, TOWER
from seesay.encoders.towers.opened import export_digest, open_towers
from seesay.errors import SeesayError, naming_extras

BITS = (8, 16, 32)
_LEAST = 256  # values of a weight that is worth storing as halves


def bring_towers(name: str, run: Path, bits: int = 32) -> str:
    """Copy towers into a run's folder, as `towers/HASH`, and return their new name.

    Args:
        name: LIBRARY:MODEL, or the name that towers have in another run.
        run: the run's folder.
        bits: of a weight: 32, 16 or 8.

    Raises:
        SeesayError: there is no such model, or its weights have fewer bits already.
        MissingExtraError: the package onnx is not installed, and the weights are to have fewer bits.
    """
    towers = open_towers(name, "cpu")
    about = dict(towers.about)
    if bits != 32 and about.get("bits", 32) != 32:
        raise SeesayError(
            f"{towers.spec.title}: has {about['bits']} bits already; name the model that it was made of."
        )
    beside = run / "towers" / "new"
    beside.mkdir(parents=True, exist_ok=True)
    for path in filter(Path.is_file, towers.folder.iterdir()):
        if bits != 32 and path.name in ("image.onnx", "text.onnx"):
            _reduce(path, beside / path.name, bits)
        else:
            shutil.copyfile(path, beside / path.name)
    if bits != 32:
        # Vectors of other weights are others, so the fingerprint must be.
        about |= {"weights": export_digest(beside), "bits": bits}
        (beside / TOWER).write_text(json.dumps(about, indent=1), encoding="utf-8")
    folder = beside.with_name(export_digest(beside, without=""))
    beside.replace(folder)
    return f"{EXPORTED}:{folder.resolve()}"


def _reduce(source: Path, target: Path, bits: int) -> None:
    """Write a network of 32-bit floats with weights of fewer bits.

    With 8 bits the matrices of linear layers are integers with a scale for each channel, and so are what they
    are multiplied with, and word embeddings are integers with a scale for each word. Matrices use seven of
    the bits: processors without VNNI add products in pairs in 16 bits, which eight would overflow.
    Convolutions stay as they are, because ONNX Runtime computes them more slowly in integers.

    With 16 bits weights are stored as halves, and become floats again when the network is opened.
    """
    with naming_extras():
        import onnx
    model = onnx.load(source)
    if bits == 16:
        _to_halves(model.graph)
        onnx.save(model, target)
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic

    _embeddings_to_integers(model.graph)
    # Else it warns that shapes could be inferred first, which is for convolutions.
    model.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    quantize_dynamic(
        model,
        target,
        op_types_to_quantize=["MatMul"],  # Gemm is turned into it
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
    )


def _to_halves(graph: Any) -> None:
    """Store each large weight as halves, with a cast to floats, which is done once on opening."""
    import onnx

    casts = []
    for name, weight in _floats(graph).items():
        if weight.size >= _LEAST:
            largest = np.finfo(np.float16).max
            _replace(graph, name, {f"{name}_half": weight.clip(-largest, largest).astype(np.float16)})
            casts.append(onnx.helper.make_node("Cast", [f"{name}_half"], [name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _embeddings_to_integers(graph: Any) -> None:
    """Store tables that rows are looked up in as integers with a scale a row: the rows are scaled after."""
    import onnx

    weights, nodes = _floats(graph), []
    uses = [name for node in graph.node for name in node.input]
    for node in graph.node:
        table = weights.get(node.input[0]) if node.op_type == "Gather" else None
        axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
        if table is None or table.ndim != 2 or axis != 0 or uses.count(node.input[0]) > 1:
            nodes.append(node)
            continue
        (name, ids), output = node.input, node.output[0]
        scales = np.maximum(np.abs(table).max(axis=1, keepdims=True) / 127, np.finfo(np.float32).tiny)
        integers = np.rint(table / scales).astype(np.int8)
        _replace(graph, name, {f"{name}_integers": integers, f"{name}_scales": scales.astype(np.float32)})
        make = onnx.helper.make_node
        nodes += [
            make("Gather", [f"{name}_integers", ids], [f"{output}_integers"]),
            make("Gather", [f"{name}_scales", ids], [f"{output}_scales"]),
            make("Cast", [f"{output}_integers"], [f"{output}_floats"], to=onnx.TensorProto.FLOAT),
            make("Mul", [f"{output}_floats", f"{output}_scales"], [output]),
        ]
    del graph.node[:]
    graph.node.extend(nodes)


def _floats(graph: Any) -> dict[str, NDArray[np.float32]]:
    """Read the weights of a graph that are floats, by name."""
    import onnx

    kept = (each for each in graph.initializer if each.data_type == onnx.TensorProto.FLOAT)
    return {each.name: onnx.numpy_helper.to_array(each) for each in kept}


def _replace(graph: Any, name: str, arrays: dict[str, NDArray[Any]]) -> None:
    """Replace a weight by others."""
    import onnx

    place = next(i for i, each in enumerate(graph.initializer) if each.name == name)
    del graph.initializer[place]
    graph.initializer.extend(onnx.numpy_helper.from_array(array, key) for key, array in arrays.items())
