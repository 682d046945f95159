"""EfficientNet-Lite in 8 bits: weights with one scale per channel, activations with one per tensor.

The graph is in ONNX's QDQ form: every quantised tensor is followed by its dequantisation, and ONNX Runtime
turns each pair around a convolution into a convolution of integers. Three things keep the features close to
those in 32 bits:

- Pixels are already 8-bit integers. The normalisation (x - 127) / 128 becomes their scale and zero point, so
  the input is exact.
- The range of a tensor is the one with the least squared error on the calibration images, ReLU6 included, and
  not that from the smallest to the largest value.
- Rounding a channel's weights shifts its mean output, which the bias corrects (Nagel et al., "Data-Free
  Quantization Through Weight Equalization and Bias Correction", ICCV 2019, section 4.2, with means measured
  on the calibration images).

The classifier's weights have 8 bits and are multiplied in 32 bits, which takes 0.3 % of the time.
"""

from __future__ import annotations

import copy
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import TensorProto
from torch import Tensor, nn

from seesay.arrays import Pixels
from seesay.encoders.images.efficientnet import LITE, load_lite
from seesay.encoders.networks import first_stages, last_blocks
from seesay.encoders.settings import EncoderSettings
from seesay_weights.onnx_graph import (
    OPSET,
    Floats,
    GraphWriter,
    constants_of,
    eight_bits,
    session_with_outputs,
)

SAMPLES = 500  # values of a tensor that are kept per image
FRACTIONS = np.linspace(0.3, 1, 15)  # of the smallest and largest value that are tried as ends of the range
INPUT = "pixels/first"  # the pixels, channels first


class _Whole(nn.Module):
    """Pixels to pooled features and logits and, for the regions of an image, to maps.

    The maps are those of the packaged network. If the network was tuned, it was tuned after stride 16, so
    both share the stages before.
    """

    def __init__(self, network: nn.Module, packaged: nn.Module | None) -> None:
        super().__init__()
        self.network, self.packaged = network, packaged

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        network: Any = self.network
        fine = first_stages(network, pixels)
        own = last_blocks(network)(fine)
        pooled = network._swish(network._bn1(network._conv_head(own))).mean(dim=(2, 3))
        found = pooled, network._fc(pooled)
        if self.packaged is None:
            return found
        coarse = own if self.packaged is network else last_blocks(self.packaged)(fine)
        return (*found, fine.permute(0, 2, 3, 1), coarse.permute(0, 2, 3, 1))


def export_lite(encoder: EncoderSettings, with_maps: bool, run: Path | None = None) -> Any:
    """Export a packaged or tuned network in 32 bits, with padding and normalisation folded into convolutions.

    `run` is the folder of the run that tuned it.

    With `with_maps`, it also returns the packaged network's maps of stride 16 and 32, and takes squares of
    any side divisible by 32.
    """
    tuned, side = encoder.get("tuned"), LITE[encoder.kind].size
    network = load_lite(encoder.kind, run, tuned).network
    of_maps = (load_lite(encoder.kind).network if tuned else network) if with_maps else None
    axes = {each: {0: "n"} for each in ("pixels", "pooled", "logits")}
    if with_maps:
        axes |= {"fine": {0: "n", 1: "h16", 2: "w16"}, "coarse": {0: "n", 1: "h32", 2: "w32"}}
        axes["pixels"] |= {1: "h", 2: "w"}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced, folded = Path(folder, "traced.onnx"), Path(folder, "folded.onnx")
        torch.onnx.export(
            _Whole(network, of_maps).eval(),
            (torch.zeros(1, side, side, 3, dtype=torch.uint8),),
            str(traced),
            input_names=["pixels"],
            output_names=[each for each in axes if each != "pixels"],
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(folded)
        onnxruntime.InferenceSession(str(traced), options, providers=["CPUExecutionProvider"])
        return onnx.load(folded)


class Calibration:
    """Statistics of the activations of a network on images (n, side, side, 3).

    Attributes:
        ranges: the ends of the range of each tensor to quantise.
        means: the mean of each channel of each tensor.
    """

    def __init__(self, model: Any, images: Pixels) -> None:
        names = _quantised_tensors(model.graph)
        session = session_with_outputs(model, names)
        draw = np.random.default_rng(0)
        kept: dict[str, list[Floats]] = {name: [] for name in names}
        self.means: dict[str, Floats] = {INPUT: ((images.astype(np.float32) - 127) / 128).mean((0, 1, 2))}
        for image in images:
            for name, maps in zip(names, session.run(names, {"pixels": image[None]}), strict=True):
                values = maps.ravel()
                chosen = values[draw.integers(values.size, size=SAMPLES)]
                kept[name].append(np.append(chosen, [values.min(), values.max()]))
                self.means[name] = self.means.get(name, 0) + maps.mean((0, 2, 3)) / len(images)
        self.ranges = {name: _best_range(np.concatenate(values)) for name, values in kept.items()}


def _quantised_tensors(graph: Any) -> list[str]:
    """Name the tensors to quantise: all activations but those before a ReLU6, which quantising replaces."""
    before = {node.input[0] for node in graph.node if node.op_type == "Clip"}
    kinds = ("Conv", "Clip", "Add")
    return [n.output[0] for n in graph.node if n.op_type in kinds and n.output[0] not in before]


def _best_range(values: Floats) -> tuple[float, float]:
    """Return the range around 0 whose 256 steps have the least squared error on the values."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    ranges = [(low * a, high * b) for a in (FRACTIONS if low else [1]) for b in FRACTIONS]

    def error(ends: tuple[float, float]) -> float:
        scale, zero = _steps(ends)
        rounded = np.clip(np.rint(values / scale) + zero, 0, 255) - zero
        return float(((rounded * scale - values) ** 2).mean())

    return min(ranges, key=error)


def _steps(ends: tuple[float, float]) -> tuple[np.float32, np.uint8]:
    """Return the scale and the zero point of a range."""
    scale = np.float32((ends[1] - ends[0]) / 255)
    return scale, np.uint8(np.clip(np.rint(-ends[0] / scale), 0, 255))


def quantise_lite(model: Any, images: Pixels, path: Path) -> None:
    """Write the 8-bit form of an exported network, calibrated on images (n, side, side, 3)."""
    _Quantiser(model.graph, Calibration(model, images)).save(model.graph, path)


class _Quantiser(GraphWriter):
    """Rewrites the nodes of an exported network one by one."""

    def __init__(self, graph: Any, measured: Calibration) -> None:
        super().__init__()
        self._measured, self._given = measured, constants_of(graph)
        self._sources: dict[str, str] = {}  # names of the exported graph to those of quantised tensors
        for node in graph.node:
            getattr(self, f"_{node.op_type.lower()}")(node)

    def _transpose(self, node: Any) -> None:
        if node.input[0] == "pixels":
            self.node("Transpose", ["pixels"], f"{INPUT}/q", perm=[0, 3, 1, 2])
            self._set_steps(INPUT, np.float32(1 / 128), np.uint8(127))
            return
        source, target = node.input[0], node.output[0]
        last = self.node("Transpose", [f"{source}/q"], f"{target}/q", perm=[0, 2, 3, 1])
        self.node("DequantizeLinear", [last, f"{source}/scale", f"{source}/zero"], target)

    def _cast(self, node: Any) -> None:
        """Leave out a part of the normalisation, which the input's scale and zero point replace."""

    _sub = _cast

    def _div(self, node: Any) -> None:
        self._sources[node.output[0]] = INPUT

    def _conv(self, node: Any) -> None:
        source, name = self._sources.get(node.input[0], node.input[0]), node.output[0]
        weights, bias = self._given[node.input[1]], self._given[node.input[2]]
        depthwise = weights.shape[1] == 1  # summed in 32 bits on every processor
        scale = self.constants[f"{source}/scale"]
        # A bias is a 32-bit integer in units of the product of both scales, which must not overflow.
        least = np.abs(bias) / scale / 2**30 + 1e-9
        rounded, scales = eight_bits(weights, least, paired=not depthwise)
        lost = (weights - rounded * scales[:, None, None, None]).sum((2, 3))
        means = self._measured.means[source]
        bias = bias + (lost[:, 0] * means if depthwise else lost @ means)
        steps = (scales * scale).astype(np.float32)
        copied = copy.deepcopy(node)
        copied.input[:] = [
            self._dequantised(source),
            self._dequantised_constant(f"{name}/weights", rounded, scales),
            self._dequantised_constant(f"{name}/bias", np.rint(bias / steps).astype(np.int32), steps),
        ]
        self.nodes.append(copied)
        if name in self._measured.ranges:
            self._quantised(name, name)

    def _clip(self, node: Any) -> None:
        self._quantised(node.output[0], node.input[0])

    def _add(self, node: Any) -> None:
        self.node("Add", [self._dequantised(each) for each in node.input], node.output[0])
        self._quantised(node.output[0], node.output[0])

    def _reducemean(self, node: Any) -> None:
        self.node("ReduceMean", [self._dequantised(node.input[0])], node.output[0], axes=[2, 3], keepdims=0)

    def _gemm(self, node: Any) -> None:
        rounded, scales = eight_bits(self._given[node.input[1]], paired=False)
        # ONNX Runtime computes this product when it loads the file, but not that of a DequantizeLinear.
        floats = self.node(
            "Cast", [self.constant("classifier/weights", rounded)], "classifier/f", to=TensorProto.FLOAT
        )
        scale = self.constant("classifier/scales", scales[:, None])
        weights = self.node("Mul", [floats, scale], "classifier/w")
        bias = self.constant("classifier/bias", self._given[node.input[2]])
        self.node("Gemm", [node.input[0], weights, bias], node.output[0], transB=1)

    def _set_steps(self, name: str, scale: np.float32, zero: np.uint8) -> None:
        self.constant(f"{name}/scale", scale)
        self.constant(f"{name}/zero", zero)

    def _quantised(self, name: str, floats: str) -> None:
        self._set_steps(name, *_steps(self._measured.ranges[name]))
        self.node("QuantizeLinear", [floats, f"{name}/scale", f"{name}/zero"], f"{name}/q")

    def _dequantised(self, name: str) -> str:
        """Dequantise a tensor for one node; ONNX Runtime needs a separate pair for each node."""
        inputs = [f"{name}/q", f"{name}/scale", f"{name}/zero"]
        return self.node("DequantizeLinear", inputs, f"{name}/d{len(self.nodes)}")

    def _dequantised_constant(self, name: str, rounded: NDArray[Any], scales: Floats) -> str:
        zeros = self.constant(f"{name}/zeros", np.zeros(len(scales), rounded.dtype))
        inputs = [self.constant(f"{name}/q", rounded), self.constant(f"{name}/scales", scales), zeros]
        return self.node("DequantizeLinear", inputs, name, axis=0)
