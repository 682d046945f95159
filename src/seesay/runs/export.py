"""Export a run's matcher to ONNX, beside its weights, for `ExportedMatcher` to use without PyTorch.

Each side is traced on one batch and compared with PyTorch on others. The graphs hold no weights but refer to
those of the run.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, Matcher, PairMatcher
from seesay.matchers.sentences import Sentences
from seesay.paths import file_digest, replace_text, replacing
from seesay.runs.exported import (
    EXPORT,
    WEIGHTS,
    Export,
    ExportedMatcher,
    Floats,
    Graph,
)
from seesay.runs.external_weights import StoredTensors, refer_to_weights
from seesay.runs.run import Run
from seesay.runs.sentences import PreparedSentences
from seesay.runs.traceable import Traceable

TOLERANCE = 1e-4  # between outputs of PyTorch and of a graph, as a share of the largest where that exceeds 1
_NAMES = ("images", "sentences", "query_images", "query_sentences", "pairs")
_OPSET = 17
_LONGEST = 30  # words of a sentence that is tried, where the matcher reads all

Compute = Callable[..., Tensor]


def try_export(run: Run) -> Export | None:
    """Export a run's matcher; where that fails, say why in a line on standard error and return None.

    What is no matcher, such as a classifier of concepts, is passed over.
    """
    if not isinstance(run.matcher, Matcher):
        return None
    try:
        return export_run(run)
    except SeesayError as failure:
        print(failure, file=sys.stderr, flush=True)
        return None


def export_run(run: Run) -> Export:
    """Export a run's matcher into its folder, replacing what was exported there before.

    `export.json` is written last, once the outputs of each graph were the same as PyTorch's: until then
    there is no export.

    Args:
        run: as it is saved in its folder; on any device.

    Raises:
        SeesayError: the matcher cannot be exported, or the folder cannot be written.
    """
    if not isinstance(run.matcher, Matcher):
        raise SeesayError(f"{run.name}: matches no sentences; there is nothing to export.")
    matcher = run.matcher if run.device == "cpu" else deepcopy(run.matcher).cpu()
    try:
        remove_export(run.folder)
        stored = StoredTensors.read(run.folder / WEIGHTS)
        sides, about = _sides(matcher), _about(run, stored)
        samples = _Samples(about, len(run.vocabulary))
        traced = {name: samples.traced(name, sides) for name in sides}
        written = {
            name: _write(run.folder, name, matcher, compute, traced[name], stored)
            for name, compute in sides.items()
        }
        if about.embeds:
            with torch.no_grad():
                about = replace(about, dim=sides["images"](traced["images"]["images"]).shape[1])
        export = replace(about, graphs={name: Graph(digest, 0.0) for name, digest in written.items()})
        errors = _errors(ExportedMatcher(export), sides, samples)
        graphs = {name: Graph(digest, errors[name]) for name, digest in written.items()}
        export = replace(export, graphs=graphs)
        replace_text(run.folder / EXPORT, export.to_json())
    except OSError as failure:
        raise SeesayError(f"{run.folder}: cannot be exported ({failure}).") from failure
    except Exception as failure:  # whatever somebody's own module or the exporter raises
        remove_export(run.folder)
        reason = (str(failure).strip() or type(failure).__name__).splitlines()[0].rstrip(".")
        raise SeesayError(
            f"{run.name}: its matcher cannot be exported to ONNX ({reason}); it is used with PyTorch."
        ) from failure
    return export


def remove_export(folder: Path) -> None:
    """Delete what was exported of the run in a folder; do nothing if nothing was."""
    for name in (EXPORT, *(f"{name}.onnx" for name in _NAMES)):
        (folder / name).unlink(missing_ok=True)


def _about(run: Run, stored: StoredTensors) -> Export:
    """Describe the run; `dim` and `graphs` are not known yet."""
    recipe = run.recipe
    return Export(
        folder=run.folder,
        weights=file_digest(stored.path),
        name=recipe.name,
        kind=recipe.matcher.kind,
        embeds=isinstance(run.matcher, EmbeddingMatcher),
        asymmetric=run.asymmetric,
        dim=None,
        encoders=recipe.encoders,
        arrays=recipe.arrays,
        image_dims=tuple(json.loads(stored.metadata["image_dims"])),
        sentence_encoder=recipe.sentence_encoder,
        sentence_dim=run.sentence_encoder.dim if run.sentence_encoder else 0,
        max_words=recipe.matcher.max_words,
        instances=recipe.matcher.instances_per_image,
        regions=recipe.regions.model_dump(mode="json") if recipe.regions else None,
        graphs={},
    )


def _sides(matcher: Matcher) -> dict[str, Compute]:
    """What each graph computes, by its name, from the tensors that it is given."""

    def of_words(compute: Callable[[Sentences], Tensor]) -> Compute:
        return lambda words, lengths, vectors: compute(Sentences(words, lengths, vectors))

    if isinstance(matcher, EmbeddingMatcher):
        sides = {"images": matcher.embed_images, "sentences": of_words(matcher.embed_sentences)}
        if matcher.asymmetric:
            sides["query_images"] = matcher.query_images
            sides["query_sentences"] = of_words(matcher.query_sentences)
        return sides
    if isinstance(matcher, PairMatcher):
        encode = matcher.encode_images, of_words(matcher.encode_sentences)
        return dict(zip(("images", "sentences", "pairs"), (*encode, matcher.score_pairs), strict=True))
    raise TypeError(f"{type(matcher).__name__} neither embeds nor scores pairs")


@dataclass(frozen=True)
class _Samples:
    """Drawn inputs of the run's shapes."""

    export: Export
    vocabulary_size: int

    def images(self, count: int) -> Tensor:
        """Return features (n, d); of instances, of which some are missing, some are half zero."""
        width = sum(self.export.image_dims)
        features = np.random.default_rng(count).standard_normal((count, width)).astype(np.float32)
        if self.export.instances is not None:
            features[count // 2 + 1 :, width // 2 :] = 0
        return torch.from_numpy(features)

    def sentences(self, lengths: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return words, lengths and vectors of sentences of these lengths."""
        draw = np.random.default_rng(sum(lengths))
        words = draw.integers(self.vocabulary_size, size=sum(lengths))
        shape = len(lengths), self.export.sentence_dim
        vectors = draw.standard_normal(shape) / max(shape[1], 1) ** 0.5
        return torch.from_numpy(words), torch.tensor(lengths), torch.from_numpy(vectors.astype(np.float32))

    def traced(self, name: str, sides: Mapping[str, Compute]) -> dict[str, Tensor]:
        """Return the inputs that a graph is traced with."""
        images, sentences = self.images(3), self.sentences((2, self.longest, 1))
        if name == "pairs":
            with torch.no_grad():
                return {"images": sides["images"](images), "sentences": sides["sentences"](*sentences)}
        if name.endswith("images"):
            return {"images": images}
        return dict(zip(("words", "lengths", "vectors"), sentences, strict=True))

    def compared(self) -> list[tuple[Tensor, tuple[Tensor, Tensor, Tensor]]]:
        """Return batches that graphs are compared with PyTorch on: of other sizes than the traced one."""
        most = self.longest
        lengths: list[list[int]] = [[1], [most + 9], [1, most, 4, most + 1, 1], [1, 1], [3, *range(1, 12)]]
        return [(self.images(2 * n + 1), self.sentences(some)) for n, some in enumerate(lengths)]

    @property
    def longest(self) -> int:
        """How many words the longest sentence has that is not truncated."""
        return self.export.max_words or _LONGEST


class _Side(nn.Module):
    """One side of a matcher as a module; weights are called `matcher.` and their own name."""

    def __init__(self, matcher: nn.Module, compute: Compute) -> None:
        super().__init__()
        self.matcher = matcher
        self._compute = compute
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the outputs in single precision."""
        return self._compute(*inputs).float()


def _write(
    folder: Path,
    name: str,
    matcher: Matcher,
    compute: Compute,
    inputs: Mapping[str, Tensor],
    stored: StoredTensors,
) -> str:
    """Trace what a graph computes and write it; return the file's digest."""
    path = folder / f"{name}.onnx"
    axes = {key: {0: "words" if key == "words" else "rows"} for key in inputs}
    with replacing(path) as beside, warnings.catch_warnings(), Traceable():
        # The tracing exporter is the one without further dependencies; it warns that it is deprecated, and of
        # sizes that become constants: what those break is found by comparing.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Side(matcher, compute),
            tuple(inputs.values()),
            str(beside),
            input_names=list(inputs),
            output_names=["output"],
            dynamic_axes={**axes, "output": {0: "rows"}},
            opset_version=_OPSET,
            do_constant_folding=False,  # weights keep their names and layouts
            dynamo=False,
        )
        model = onnx.load_model(beside)
        refer_to_weights(model, stored, "matcher.")
        beside.write_bytes(model.SerializeToString(deterministic=True))
    return file_digest(path)


@torch.no_grad()
def _errors(exported: ExportedMatcher, sides: Mapping[str, Compute], samples: _Samples) -> dict[str, float]:
    """Compare each graph with PyTorch; return the largest error of each.

    Raises:
        ValueError: an error is larger than the tolerance.
    """
    worst = dict.fromkeys(sides, 0.0)
    for images, sentences in samples.compared():
        for name, compute in sides.items():
            if name == "pairs":
                wanted = compute(*_all_pairs(sides["images"](images), sides["sentences"](*sentences)))
            else:
                wanted = compute(images) if name.endswith("images") else compute(*sentences)
            texts = PreparedSentences(*(part.numpy() for part in sentences))
            found = _found(exported, name, images.numpy(), texts)
            worst[name] = max(worst[name], _error(name, found, wanted.float().numpy()))
    return worst


def _found(
    exported: ExportedMatcher,
    name: str,
    features: Floats,
    sentences: PreparedSentences,
) -> Floats:
    """Return the outputs of a graph; of pairs, those of all of them, (n·m,)."""
    query = name.startswith("query")
    if name == "pairs":
        return exported.score_all(features, sentences).reshape(-1)
    if name.endswith("images"):
        return exported.embed_images(features, query) if exported.embeds else exported.encode_images(features)
    if exported.embeds:
        return exported.embed_sentences(sentences, query)
    return exported.encode_sentences(sentences)


def _all_pairs(images: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor]:
    """Lay each encoded image (n, …) beside each encoded sentence (m, …): (n·m, …) both."""
    beside = sentences.repeat(len(images), *[1] * (sentences.ndim - 1))
    return images.repeat_interleave(len(sentences), 0), beside


def _error(name: str, found: Floats, wanted: Floats) -> float:
    """Return the largest difference, as a share of the largest finite number where that exceeds 1."""
    if found.shape != wanted.shape:
        raise ValueError(f"{name}.onnx gives {found.shape} where PyTorch gives {wanted.shape}")
    with np.errstate(invalid="ignore"):
        differences = np.where(found == wanted, 0, np.abs(found - wanted))
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
    error = float(differences.max() / largest)
    if not error <= TOLERANCE:
        raise ValueError(f"{name}.onnx differs from PyTorch by {error:.2g}")
    return error
