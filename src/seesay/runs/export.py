"""Export a run's matcher to ONNX, beside its weights, for `OnnxBackend` to use without PyTorch.

Each side is traced on one batch and compared with PyTorch on others, because sizes that the trace has made
constant break other batches.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from torch import Tensor, nn

from seesay.arrays import Vectors
from seesay.errors import SeesayError, first_line
from seesay.matchers.base import EmbeddingMatcher, Matcher, PairMatcher
from seesay.matchers.sentences import Sentences
from seesay.onnx import trace
from seesay.paths import file_digest, replacing
from seesay.runs.config import Graph, RunConfig
from seesay.runs.folder import GRAPHS, WEIGHTS
from seesay.runs.onnx_backend import PREFIX, OnnxBackend
from seesay.runs.prepare import PreparedSentences
from seesay.runs.run import Run
from seesay.runs.torch_backend import TorchBackend

TOLERANCE = 1e-4  # between outputs of PyTorch and of a graph, as a share of the largest where that exceeds 1
_LONGEST = 30  # words of the longest sample sentence, if the matcher has no limit


def try_export(run: Run) -> None:
    """Export a run's matcher; a failure is logged as a warning. Concept classifiers are skipped."""
    if isinstance(run.matcher, Matcher):
        try:
            export_run(run)
        except SeesayError as failure:
            logging.getLogger(__name__).warning("%s", failure)


def export_run(run: Run, name: str | None = None) -> None:
    """Export a run's matcher into its folder, replacing a previous export; errors call it by `name`.

    `run.json` lists the graphs once the outputs of each agree with PyTorch's; until then there is no export.
    The run, on any device, is as saved in its folder.

    Raises:
        SeesayError: the matcher cannot be exported, or the folder cannot be written.
    """
    matcher = run.matcher if run.device == "cpu" else deepcopy(run.matcher).cpu()
    if not isinstance(matcher, Matcher):
        raise SeesayError(f"{run.name}: does not match sentences; there is nothing to export.")
    longest = run.config.max_words or _LONGEST
    sizes = [(3, [2, longest, 1]), (1, [1]), (3, [longest + 9]), (5, [1, longest, 4, longest + 1, 1])]
    sizes += [(7, [1, 1]), (9, [3, *range(1, 12)])]
    traced, *compared = (_sample(run.config, len(run.vocabulary), *size) for size in sizes)
    try:
        remove_export(run)
        weights = file_digest(run.folder / WEIGHTS)
        names = ["images", "sentences"]
        if isinstance(matcher, PairMatcher):
            names += ["pairs"]
        elif run.asymmetric:
            names += ["query_images", "query_sentences"]
        pytorch = TorchBackend(matcher, "cpu")
        graphs = {name: _write(run.folder, name, matcher, _inputs(name, pytorch, *traced)) for name in names}
        exported = OnnxBackend(run.folder, replace(run.config, graphs=graphs))
        for name, batch in product(graphs, compared):
            _compare(name, exported, pytorch, *batch)
        dim = exported.encode_images(compared[0][0]).shape[1] if run.embeds else None
        run.update(graphs=graphs, weights=weights, dim=dim)
    except OSError as failure:
        raise SeesayError(f"{run.folder}: cannot be exported ({failure}).") from failure
    except Exception as failure:  # whatever somebody's own module or the exporter raises
        remove_export(run)
        reason = first_line(failure).rstrip(".")
        raise SeesayError(
            f"{name or run.name}: its matcher cannot be exported to ONNX ({reason}); the run needs PyTorch."
        ) from failure


def remove_export(run: Run) -> None:
    """Delete what was exported of a run; do nothing if nothing was."""
    if run.config.graphs:
        run.update(graphs={}, weights=None)
    for name in GRAPHS:
        (run.folder / f"{name}.onnx").unlink(missing_ok=True)


def _sample(
    config: RunConfig, vocabulary_size: int, images: int, lengths: Sequence[int]
) -> tuple[Vectors, PreparedSentences]:
    """Draw features of images, half of whose instances may be missing, and sentences of these lengths."""
    draw, width = np.random.default_rng(images), sum(config.image_dims)
    features = draw.standard_normal((images, width)).astype(np.float32)
    if config.instances is not None:
        features[images // 2 + 1 :, width // 2 :] = 0
    words = draw.integers(vocabulary_size, size=sum(lengths))
    vectors = draw.standard_normal((len(lengths), config.sentence_dim)) / max(config.sentence_dim, 1) ** 0.5
    return features, PreparedSentences(words, np.array(lengths), vectors.astype(np.float32))


class _Side(nn.Module):
    """One side of a matcher as a module; the names of its weights begin with `matcher.`."""

    def __init__(self, matcher: nn.Module, name: str) -> None:
        super().__init__()
        self.matcher = matcher
        encode = "embed" if isinstance(matcher, EmbeddingMatcher) else "encode"
        of_side = name if name.startswith("query") else f"{encode}_{name}"
        self._compute = getattr(matcher, "score_pairs" if name == "pairs" else of_side)
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the outputs in single precision; three inputs are words, lengths and vectors."""
        output: Tensor = self._compute(*(Sentences(*inputs),) if len(inputs) == 3 else inputs)
        return output.float()


def _inputs(
    name: str, pytorch: TorchBackend, features: Vectors, sentences: PreparedSentences
) -> dict[str, NDArray[Any]]:
    """Return the inputs of a graph, by name."""
    if name == "pairs":
        images, read = pytorch.encode_images(features), pytorch.encode_sentences(sentences)
        return {"images": images.numpy(), "sentences": read.numpy()}
    if name.endswith("images"):
        return {"images": features}
    return {"words": sentences.words, "lengths": sentences.lengths, "vectors": sentences.vectors}


def _write(folder: Path, name: str, matcher: nn.Module, inputs: Mapping[str, NDArray[Any]]) -> Graph:
    """Trace and write a graph, which only names the matcher's weights."""
    axes = {key: {0: "words" if key == "words" else "rows"} for key in (*inputs, "output")}
    with replacing(folder / f"{name}.onnx") as beside:
        side = _Side(matcher, name)
        trace(side, [*inputs.values()], beside, [*inputs], ["output"], axes, fold=False)
        model = onnx.load_model(beside)
        weights, taken = matcher.state_dict(), list[str]()
        for initializer in model.graph.initializer:
            weight = weights.get(name_there := initializer.name.removeprefix(PREFIX))
            if weight is None or not weight.is_floating_point():
                continue
            if np.array_equal(onnx.numpy_helper.to_array(initializer), weight.numpy(), equal_nan=True):
                initializer.ClearField("raw_data")
                initializer.data_location = onnx.TensorProto.EXTERNAL
                initializer.external_data.add(key="location", value=WEIGHTS)
                taken.append(name_there)
        beside.write_bytes(model.SerializeToString(deterministic=True))
    return Graph(file_digest(folder / f"{name}.onnx"), tuple(taken))


def _compare(
    name: str,
    exported: OnnxBackend,
    pytorch: TorchBackend,
    features: Vectors,
    sentences: PreparedSentences,
) -> None:
    """Raise a ValueError if the outputs of a graph differ from PyTorch's by more than the tolerance."""
    found, wanted = (_outputs(backend, name, features, sentences) for backend in (exported, pytorch))
    if found.shape != wanted.shape:
        raise ValueError(f"{name}.onnx returns {found.shape}, PyTorch {wanted.shape}")
    with np.errstate(invalid="ignore"):
        differences = np.where(found == wanted, 0, np.abs(found - wanted))
    error = float(differences.max() / np.abs(wanted[np.isfinite(wanted)]).max(initial=1))
    if not error <= TOLERANCE:
        raise ValueError(f"{name}.onnx differs from PyTorch by {error:.2g}")


def _outputs(
    backend: OnnxBackend | TorchBackend, name: str, features: Vectors, sentences: PreparedSentences
) -> Vectors:
    """Return the outputs of a graph; for pairs, all scores, (n, m)."""
    if name == "pairs":
        encoded = backend.encode_images(features), backend.encode_sentences(sentences)
        return np.asarray(backend.score_encoded(*encoded), np.float32)
    query = name.startswith("query")
    if name.endswith("images"):
        return np.asarray(backend.encode_images(features, query))
    return np.asarray(backend.encode_sentences(sentences, query))
