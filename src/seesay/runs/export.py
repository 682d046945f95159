"""Export a run's matcher to ONNX, beside its weights, for `OnnxBackend` to use without PyTorch.

Each side is traced on one batch and compared with PyTorch on others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from seesay.arrays import Vectors
from seesay.errors import SeesayError, first_line
from seesay.matchers.base import EmbeddingMatcher, Matcher, PairMatcher
from seesay.matchers.sentences import Sentences
from seesay.onnx import trace
from seesay.paths import file_digest, replacing
from seesay.runs.config import GRAPHS, WEIGHTS, Graph, RunConfig
from seesay.runs.onnx_backend import PREFIX, OnnxBackend
from seesay.runs.run import Run
from seesay.runs.sentences import PreparedSentences
from seesay.runs.trained import TorchBackend

TOLERANCE = 1e-4  # between outputs of PyTorch and of a graph, as a share of the largest where that exceeds 1
_LONGEST = 30  # words of the longest sample sentence, if the matcher has no limit

Compute = Callable[..., Tensor]


def try_export(run: Run) -> None:
    """Export a run's matcher; a failure is logged as a warning, which Python shows on standard error.

    Other modules, such as concept classifiers, are skipped.
    """
    if isinstance(run.matcher, Matcher):
        try:
            export_run(run)
        except SeesayError as failure:
            logging.getLogger(__name__).warning("%s", failure)


def export_run(run: Run) -> None:
    """Export a run's matcher into its folder, replacing a previous export.

    `run.json` lists the graphs once the outputs of each agree with PyTorch's; until then there is no export.

    Args:
        run: the run as saved in its folder, on any device.

    Raises:
        SeesayError: the matcher cannot be exported, or the folder cannot be written.
    """
    if not isinstance(run.matcher, Matcher):
        raise SeesayError(f"{run.name}: does not match sentences; there is nothing to export.")
    matcher = run.matcher if run.device == "cpu" else deepcopy(run.matcher).cpu()
    try:
        remove_export(run)
        weights = file_digest(run.folder / WEIGHTS)
        sides = _sides(matcher)
        samples = _Samples(run.config, len(run.vocabulary))
        graphs = {name: _write(run.folder, name, matcher, sides, samples) for name in sides}
        exported = OnnxBackend(run.folder, replace(run.config, graphs=graphs))
        errors = _errors(exported, TorchBackend(matcher, "cpu"), graphs, samples)
        graphs = {name: replace(graph, error=errors[name]) for name, graph in graphs.items()}
        dim = exported.encode_images(samples.features(1)).shape[1] if run.embeds else None
        run.update(graphs=graphs, weights=weights, dim=dim)
    except OSError as failure:
        raise SeesayError(f"{run.folder}: cannot be exported ({failure}).") from failure
    except Exception as failure:  # whatever somebody's own module or the exporter raises
        remove_export(run)
        reason = first_line(failure).rstrip(".")
        raise SeesayError(
            f"{run.name}: its matcher cannot be exported to ONNX ({reason}); the run needs PyTorch."
        ) from failure


def remove_export(run: Run) -> None:
    """Delete what was exported of a run; do nothing if nothing was."""
    if run.config.graphs:
        run.update(graphs={}, weights=None)
    for name in GRAPHS:
        (run.folder / f"{name}.onnx").unlink(missing_ok=True)


def _sides(matcher: Matcher) -> dict[str, Compute]:
    """Return the function that computes each graph, by the graph's name."""

    def of_words(compute: Callable[[Sentences], Tensor]) -> Compute:
        return lambda words, lengths, vectors: compute(Sentences(words, lengths, vectors))

    if isinstance(matcher, EmbeddingMatcher):
        sides = {"images": matcher.embed_images, "sentences": of_words(matcher.embed_sentences)}
        if matcher.asymmetric:
            sides["query_images"] = matcher.query_images
            sides["query_sentences"] = of_words(matcher.query_sentences)
        return sides
    if isinstance(matcher, PairMatcher):
        sentences = of_words(matcher.encode_sentences)
        return {"images": matcher.encode_images, "sentences": sentences, "pairs": matcher.score_pairs}
    raise TypeError(f"{type(matcher).__name__} neither embeds nor scores pairs")


@dataclass(frozen=True)
class _Samples:
    """Random inputs with the run's shapes."""

    config: RunConfig
    vocabulary_size: int

    def features(self, count: int) -> Vectors:
        """Return features (n, d); some instances are missing, so some rows are half zero."""
        width = sum(self.config.image_dims)
        features = np.random.default_rng(count).standard_normal((count, width)).astype(np.float32)
        if self.config.instances is not None:
            features[count // 2 + 1 :, width // 2 :] = 0
        return features

    def sentences(self, lengths: Sequence[int]) -> PreparedSentences:
        """Return sentences of these lengths."""
        draw = np.random.default_rng(sum(lengths))
        words = draw.integers(self.vocabulary_size, size=sum(lengths))
        shape = len(lengths), self.config.sentence_dim
        vectors = draw.standard_normal(shape) / max(shape[1], 1) ** 0.5
        return PreparedSentences(words, np.array(lengths), vectors.astype(np.float32))

    def traced(self, name: str, sides: Mapping[str, Compute]) -> dict[str, Tensor]:
        """Return the inputs that a graph is traced with."""
        images, some = torch.from_numpy(self.features(3)), self.sentences((2, self.longest, 1))
        parts = {"words": some.words, "lengths": some.lengths, "vectors": some.vectors}
        sentences = {name: torch.from_numpy(part) for name, part in parts.items()}
        if name == "pairs":
            with torch.no_grad():
                return {"images": sides["images"](images), "sentences": sides["sentences"](**sentences)}
        return {"images": images} if name.endswith("images") else sentences

    def compared(self) -> list[tuple[Vectors, PreparedSentences]]:
        """Return batches of various sizes for the comparison with PyTorch."""
        most = self.longest
        lengths: list[list[int]] = [[1], [most + 9], [1, most, 4, most + 1, 1], [1, 1], [3, *range(1, 12)]]
        return [(self.features(2 * n + 1), self.sentences(some)) for n, some in enumerate(lengths)]

    @property
    def longest(self) -> int:
        """The number of words of the longest sentence that is not truncated."""
        return self.config.max_words or _LONGEST


class _Side(nn.Module):
    """One side of a matcher as a module; the names of its weights begin with `matcher.`."""

    def __init__(self, matcher: nn.Module, compute: Compute) -> None:
        super().__init__()
        self.matcher = matcher
        self._compute = compute
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the outputs in single precision."""
        return self._compute(*inputs).float()


def _write(
    folder: Path, name: str, matcher: Matcher, sides: Mapping[str, Compute], samples: _Samples
) -> Graph:
    """Trace and write a graph without weights."""
    path, inputs = folder / f"{name}.onnx", samples.traced(name, sides)
    axes = {key: {0: "words" if key == "words" else "rows"} for key in inputs}
    dynamic = {**axes, "output": {0: "rows"}}
    with replacing(path) as beside:
        # The comparison detects sizes that the trace made constant, which break other batches.
        example = [each.numpy() for each in inputs.values()]
        trace(_Side(matcher, sides[name]), example, beside, list(inputs), ["output"], dynamic, fold=False)
        model = onnx.load_model(beside)
        weights = _take_weights(model, matcher)
        beside.write_bytes(model.SerializeToString(deterministic=True))
    return Graph(file_digest(path), weights, 0.0)


def _take_weights(model: onnx.ModelProto, matcher: Matcher) -> tuple[str, ...]:
    """Remove the matcher's weights from a graph, which then only names them; return the names."""
    weights, taken = matcher.state_dict(), []
    for initializer in model.graph.initializer:
        name = initializer.name.removeprefix(PREFIX)
        weight = weights.get(name)
        if weight is None or not weight.is_floating_point():
            continue
        if np.array_equal(onnx.numpy_helper.to_array(initializer), weight.numpy(), equal_nan=True):
            initializer.ClearField("raw_data")
            initializer.data_location = onnx.TensorProto.EXTERNAL
            initializer.external_data.add(key="location", value=WEIGHTS)
            taken.append(name)
    return tuple(taken)


def _errors(
    exported: OnnxBackend, pytorch: TorchBackend, names: Iterable[str], samples: _Samples
) -> dict[str, float]:
    """Compare each graph with PyTorch; return the largest error of each.

    Raises:
        ValueError: an error is larger than the tolerance.
    """
    worst = dict.fromkeys(names, 0.0)
    for batch in samples.compared():
        for name in worst:
            found, wanted = _outputs(exported, name, *batch), _outputs(pytorch, name, *batch)
            worst[name] = max(worst[name], _error(name, found, wanted))
    return worst


def _outputs(
    backend: OnnxBackend | TorchBackend, name: str, features: Vectors, sentences: PreparedSentences
) -> Vectors:
    """Return the outputs of a graph; for pairs, all scores, (n·m,)."""
    if name == "pairs":
        rows, columns = np.divmod(np.arange(len(features) * len(sentences)), len(sentences))
        both = backend.encode_images(features), backend.encode_sentences(sentences)
        return np.asarray(backend.score_pairs(*both, rows, columns), np.float32)
    query = name.startswith("query")
    if name.endswith("images"):
        return np.asarray(backend.encode_images(features, query), np.float32)
    return np.asarray(backend.encode_sentences(sentences, query), np.float32)


def _error(name: str, found: Vectors, wanted: Vectors) -> float:
    """Return the largest difference, as a share of the largest finite number where that exceeds 1."""
    if found.shape != wanted.shape:
        raise ValueError(f"{name}.onnx returns {found.shape}, PyTorch {wanted.shape}")
    with np.errstate(invalid="ignore"):
        differences = np.where(found == wanted, 0, np.abs(found - wanted))
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
    error = float(differences.max() / largest)
    if not error <= TOLERANCE:
        raise ValueError(f"{name}.onnx differs from PyTorch by {error:.2g}")
    return error
