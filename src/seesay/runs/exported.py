"""A run's matcher in ONNX Runtime: embeds and scores without PyTorch.

export.json             what was exported, and what the rest must know of the matcher
images.onnx             features to embeddings, or to what pairs need of an image
sentences.onnx          words and vectors of sentences to the same
query_images.onnx       the same of queries, if the matcher embeds them differently
query_sentences.onnx
pairs.onnx              encoded images and sentences side by side to scores, of a pair matcher

The graphs are small: they read their weights from the run's `weights.safetensors`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.paths import file_digest
from seesay.runs.backend import inner_products
from seesay.runs.sentences import PreparedSentences

EXPORT, WEIGHTS = "export.json", "weights.safetensors"
FORMAT = 1
_BATCH = 512  # images or sentences at a time
_AT_ONCE = 1 << 20  # pairs whose places are held at a time
_PAIRS = 1 << 24  # bytes of encoded images and sentences that are scored at a time

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Graph:
    """An exported graph: its file's digest, and how far its outputs were from PyTorch's at most."""

    digest: str
    error: float


@dataclass(frozen=True, slots=True)
class Export:
    """What `export.json` in a run's folder says.

    Attributes:
        folder: of the run.
        weights: digest of the weights that the graphs belong to.
        name: the recipe's name.
        kind: the matcher's.
        embeds: True if it embeds both sides, False if it scores pairs.
        asymmetric: True if queries and gallery items are embedded differently.
        dim: length of an embedding; None for a pair matcher.
        encoders: names of the image encoders.
        arrays: which of their arrays are joined.
        image_dims: widths of these.
        sentence_encoder: name of the sentence encoder, if any.
        sentence_dim: width of its vectors; 0 without one.
        max_words: how many words of a sentence are read; None for all.
        instances: how many instances an image's features join; None for one vector.
        regions: the recipe's settings of regions, if it matches these with phrases.
        graphs: the exported graphs by the names of their files, without `.onnx`.
    """

    folder: Path
    weights: str
    name: str
    kind: str
    embeds: bool
    asymmetric: bool
    dim: int | None
    encoders: tuple[str, ...]
    arrays: tuple[str, ...]
    image_dims: tuple[int, ...]
    sentence_encoder: str | None
    sentence_dim: int
    max_words: int | None
    instances: int | None
    regions: Mapping[str, Any] | None
    graphs: Mapping[str, Graph]

    def to_dict(self) -> dict[str, Any]:
        """Return what `export.json` holds."""
        fields = asdict(self)
        del fields["folder"]
        return {"format": FORMAT, **fields}

    def to_json(self) -> str:
        """Return the text of `export.json`."""
        return json.dumps(self.to_dict(), indent=1) + "\n"


def read_export(folder: Path) -> Export | None:
    """Read what was exported of the run in a folder; None if nothing was, or of other weights.

    Raises:
        SeesayError: the file is damaged.
    """
    path = folder / EXPORT
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found.pop("format") != FORMAT:  # of another version of seesay
            return None
        found["graphs"] = {name: Graph(**graph) for name, graph in found["graphs"].items()}
        for name in ("encoders", "arrays", "image_dims"):
            found[name] = tuple(found[name])
        export = Export(folder, **found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as failure:
        raise SeesayError(f"{path}: damaged ({failure}); {_again(folder)}") from failure
    try:
        return export if file_digest(folder / WEIGHTS) == export.weights else None
    except OSError:
        return None


class ExportedMatcher:
    """A matcher whose graphs are opened one by one, when each is first used; see `Backend`. Thread-safe."""

    def __init__(self, export: Export) -> None:
        self.export = export
        self._sessions: dict[str, Any] = {}
        self._lock = threading.Lock()

    @property
    def embeds(self) -> bool:
        """See `Backend`."""
        return self.export.embeds

    @property
    def asymmetric(self) -> bool:
        """See `Backend`."""
        return self.export.asymmetric

    @property
    def dim(self) -> int | None:
        """See `Backend`."""
        return self.export.dim

    def embed_images(self, features: Floats, query: bool = False) -> Floats:
        """Embed images given as joined features (n, d), as (n, dim).

        Raises:
            SeesayError: the features are of another width, or the graph is damaged.
        """
        parts = self._of_images(self._side("images", query), features)
        return np.concatenate([np.zeros((0, self.export.dim or 0), np.float32), *parts])

    def embed_sentences(self, sentences: PreparedSentences, query: bool = False) -> Floats:
        """Embed m sentences, (m, dim).

        Raises:
            SeesayError: the vectors are of another width, or the graph is damaged.
        """
        parts = self._of_sentences(self._side("sentences", query), sentences)
        return np.concatenate([np.zeros((0, self.export.dim or 0), np.float32), *parts])

    def encode_images(self, features: Floats) -> Floats:
        """Return what pairs need of n images, given as joined features (n, d); n is at least 1."""
        return np.concatenate(list(self._of_images(self._side("images", query=True), features)))

    def encode_sentences(self, sentences: PreparedSentences) -> Floats:
        """Return what pairs need of m sentences; m is at least 1."""
        return np.concatenate(list(self._of_sentences("sentences", sentences)))

    def score_pairs(
        self, images: Floats, sentences: Floats, rows: Integers, columns: Integers
    ) -> NDArray[np.floating]:
        """Return the scores (p,) of those rows of encoded images and of encoded sentences."""
        if self.embeds:
            return inner_products(images, sentences, rows, columns)
        few = max(_PAIRS // (images[0].nbytes + sentences[0].nbytes), 1)
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), few):
            i, j = rows[start : start + few], columns[start : start + few]
            scores[start : start + few] = self._run("pairs", images=images[i], sentences=sentences[j])
        return scores

    def score_all(self, features: Floats, sentences: PreparedSentences, keep: bool = False) -> Floats:
        """Score all pairs of n images, given as joined features (n, d), and m sentences, (n, m)."""
        del keep  # PyTorch keeps scores
        if self.embeds:
            return self.embed_images(features) @ self.embed_sentences(sentences).T
        n, m = len(features), len(sentences)
        if not n or not m:
            return np.zeros((n, m), np.float32)
        images, read = self.encode_images(features), self.encode_sentences(sentences)
        scores = np.empty(n * m, np.float32)
        for start in range(0, n * m, _AT_ONCE):
            rows, columns = np.divmod(np.arange(start, min(start + _AT_ONCE, n * m)), m)
            scores[start : start + _AT_ONCE] = self.score_pairs(images, read, rows, columns)
        return scores.reshape(n, m)

    def _side(self, name: str, query: bool) -> str:
        return f"query_{name}" if query and self.export.asymmetric else name

    def _of_images(self, graph: str, features: Floats) -> Iterator[Floats]:
        _check_width("images: wanted features", "n", features, sum(self.export.image_dims))
        for start in range(0, len(features), _BATCH):
            yield self._run(graph, images=features[start : start + _BATCH])

    def _of_sentences(self, graph: str, sentences: PreparedSentences) -> Iterator[Floats]:
        _check_width("sentences: wanted vectors", "m", sentences.vectors, self.export.sentence_dim)
        for some in sentences.split(_BATCH):
            yield self._run(graph, words=some.words, lengths=some.lengths, vectors=some.vectors)

    def _run(self, graph: str, **inputs: NDArray[Any]) -> Floats:
        """Compute the output of a graph, which may leave inputs unused."""
        session = self._session(graph)
        given = {each.name: np.ascontiguousarray(inputs[each.name]) for each in session.get_inputs()}
        output: Floats = session.run(None, given)[0]
        return output

    def _session(self, name: str) -> Any:
        with self._lock:
            if name not in self._sessions:
                self._sessions[name] = _open(self.export, name)
            return self._sessions[name]


def _open(export: Export, name: str) -> Any:
    """Open a session of a graph on the CPU.

    Raises:
        SeesayError: the file is missing, damaged or of another export.
    """
    import onnxruntime

    path = export.folder / f"{name}.onnx"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if name != "pairs":  # a side is computed in a moment: what counts is how soon it begins
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        if file_digest(path) != export.graphs[name].digest:
            raise SeesayError(f"{path}: not the one that {EXPORT} names; {_again(export.folder)}")
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except SeesayError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        raise SeesayError(f"{path}: damaged or missing; {_again(export.folder)}") from error


def _check_width(what: str, count: str, rows: Floats, width: int) -> None:
    if rows.ndim != 2 or rows.shape[1] != width:
        raise SeesayError(f"{what} of shape ({count}, {width}), got {rows.shape}.")


def _again(folder: Path) -> str:
    return f"export the run again with `seesay export {folder}`."
