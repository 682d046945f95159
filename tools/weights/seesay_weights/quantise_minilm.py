"""MiniLM in 8 bits: weights with one scale per column, activations with one scale per word.

The scales of activations are computed while the network runs, for each word separately, so that the vector of
a sentence does not depend on the other sentences of its batch. It would with one scale for the whole tensor,
as in ONNX Runtime's own dynamic quantisation. A few columns of a BERT's activations are much larger than the
others; before rounding, each column is divided by √(largest activation / largest weight), and its weights are
multiplied by that (SmoothQuant; Xiao et al., ICML 2023, eq. 4 with α = ½). What rounding the weights adds to
the mean of an output is subtracted.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto
from tokenizers import Tokenizer

from seesay.encoders.networks import load_minilm
from seesay.encoders.sentences.minilm import MAX_LENGTH
from seesay_weights.onnx_graph import (
    MICROSOFT,
    OPSET,
    Floats,
    GraphWriter,
    constants_of,
    eight_bits,
    optimise,
    session_with_outputs,
)


def export_minilm() -> Any:
    """Export the packaged network in 32 bits."""
    example = torch.ones(2, 5, dtype=torch.int64)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "minilm.onnx")
        torch.onnx.export(
            load_minilm(),
            (example, example),
            str(path),
            input_names=["ids", "mask"],
            output_names=["vectors"],
            dynamic_axes={"ids": {0: "n", 1: "t"}, "mask": {0: "n", 1: "t"}, "vectors": {0: "n"}},
            opset_version=OPSET,
            dynamo=False,
        )
        return onnx.load(path)


def quantise_minilm(model: Any, tokenizer: Tokenizer, sentences: Sequence[str], path: Path) -> None:
    """Write the 8-bit form of the exported network, calibrated on sentences."""
    _Quantiser(model, tokenizer, sentences).save(model.graph, path)
    optimise(path)


class _Quantiser(GraphWriter):
    """Rewrites products with constant weights and the tables of embeddings; copies everything else."""

    def __init__(self, model: Any, tokenizer: Tokenizer, sentences: Sequence[str]) -> None:
        super().__init__()
        self._given = constants_of(model.graph)
        products = [n for n in model.graph.node if n.op_type == "MatMul" and n.input[1] in self._given]
        inputs = list(dict.fromkeys(node.input[0] for node in products))
        self._largest, self._mean = _measure(model, inputs, tokenizer, sentences)
        self._smooth = {name: self._smoothing(name, products) for name in inputs}
        for node in model.graph.node:
            if node in products:
                self._product(node)
            elif node.op_type == "Gather" and node.input[0] in ("words.weight", "positions.weight"):
                self._embedding(node)
            else:
                self.nodes.append(node)
        used = {name for node in self.nodes for name in node.input}
        self.constants |= {name: value for name, value in self._given.items() if name in used}

    def _smoothing(self, name: str, products: Sequence[Any]) -> Floats:
        weights = [self._given[node.input[1]] for node in products if node.input[0] == name]
        largest = np.abs(np.concatenate(weights, axis=1)).max(axis=1)
        return np.asarray(np.sqrt(np.maximum(self._largest[name], 1e-5) / largest), np.float32)

    def _product(self, node: Any) -> None:
        source, name = node.input[0], node.output[0]
        if f"{source}/smooth" not in self.constants:
            self._quantise_words(source)
        weights = self._given[node.input[1]] * self._smooth[source][:, None]
        rounded, scales = eight_bits(weights.T)
        lost = weights - (rounded * scales[:, None]).T
        correction = lost.T @ (self._mean[source] / self._smooth[source])
        inputs = [
            f"{source}/q",
            self.constant(f"{name}/weights", np.ascontiguousarray(rounded.T)),
            "step",
            self.constant(f"{name}/scales", scales),
            "zero",
        ]
        unit = self.node("MatMulIntegerToFloat", inputs, f"{name}/unit", domain=MICROSOFT)
        scaled = self.node("Mul", [unit, f"{source}/largest"], f"{name}/scaled")
        self.node("Add", [scaled, self.constant(f"{name}/correction", correction)], name)

    def _quantise_words(self, source: str) -> None:
        """Divide an activation (n, t, d) by its smoothing, and each word by its largest number, and round."""
        self.constant("step", np.float32(1 / 127))
        self.constant("zero", np.uint8(128))
        smooth = self.constant(f"{source}/smooth", 1 / self._smooth[source])
        smoothed = self.node("Mul", [source, smooth], f"{source}/smoothed")
        sizes = self.node("Abs", [smoothed], f"{source}/sizes")
        highest = self.node("ReduceMax", [sizes], f"{source}/highest", axes=[-1], keepdims=1)
        least = self.constant("least", np.float32(1e-9))
        largest = self.node("Max", [highest, least], f"{source}/largest")
        unit = self.node("Div", [smoothed, largest], f"{source}/unit")
        self.node("QuantizeLinear", [unit, "step", "zero"], f"{source}/q")

    def _embedding(self, node: Any) -> None:
        table, name = self._given[node.input[0]], node.output[0]
        if node.input[0] == "positions.weight":
            table = table[:MAX_LENGTH]
        rounded, scales = eight_bits(table, paired=False)
        rows = self.node("Gather", [self.constant(f"{name}/table", rounded), node.input[1]], f"{name}/q")
        floats = self.node("Cast", [rows], f"{name}/f", to=TensorProto.FLOAT)
        scale = self.constant(f"{name}/scales", scales[:, None])
        self.node("Mul", [floats, self.node("Gather", [scale, node.input[1]], f"{name}/s")], name)


def _measure(
    model: Any, names: Sequence[str], tokenizer: Tokenizer, sentences: Sequence[str]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Measure the largest absolute value and the mean of each column of activations over all words."""
    session = session_with_outputs(model, names)
    found: dict[str, list[Floats]] = {name: [] for name in names}
    for sentence in sentences:
        ids = np.array([tokenizer.encode(sentence).ids], np.int64)
        arrays = session.run(list(names), {"ids": ids, "mask": np.ones_like(ids)})
        for name, array in zip(names, arrays, strict=True):
            found[name].append(array[0])
    every = {name: np.concatenate(parts) for name, parts in found.items()}
    largest = {name: np.abs(rows).max(axis=0) for name, rows in every.items()}
    return largest, {name: rows.mean(axis=0) for name, rows in every.items()}
