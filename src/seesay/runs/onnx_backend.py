"""A run's matcher in ONNX Runtime: embeds and scores without PyTorch.

images.onnx             features to embeddings, or to what pairs need of an image
sentences.onnx          words and vectors of sentences to the same
query_images.onnx       the same of queries, if the matcher embeds them differently
query_sentences.onnx
pairs.onnx              encoded images and sentences side by side to scores, of a pair matcher

The graphs contain no weights: each is opened with its tensors in the run's `weights.safetensors`.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from seesay.arrays import Vectors
from seesay.errors import SeesayError
from seesay.onnx import compute, onnx_session
from seesay.paths import file_digest, unusable
from seesay.progress import Advance
from seesay.runs.config import RunConfig
from seesay.runs.folder import RUN, WEIGHTS
from seesay.runs.prepare import PreparedSentences

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from seesay.runs.torch_backend import TorchBackend

PREFIX = "matcher."  # of the name of a weight in a graph
_REMEDY = "restore it, or train again"
_BATCH = 512  # images or sentences at a time
_BLOCK = 1 << 17  # pairs that are scored at a time, roughly
_IMAGES = 256  # in a block, at most: a sentence is scored with all of them at once, at all its positions

_PAIRS = 1 << 24  # bytes of encoded images and sentences that are scored at a time


class OnnxBackend:
    """A matcher whose graphs are opened on first use. Thread-safe.

    An embedding matcher encodes images and sentences to its embeddings, a pair matcher to arrays, or in
    `TorchBackend` to tensors, for `score_encoded`.
    """

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self._folder, self._config = folder, config
        self._sessions: dict[str, InferenceSession] = {}
        self._lock = threading.Lock()

    def encode_images(self, features: Vectors, query: bool = False) -> Vectors:
        """Encode n images, at least one, given as joined features (n, d).

        They are encoded as queries if `query` is set and the matcher embeds these differently.

        Raises:
            SeesayError: the features have the wrong width, or the graph is damaged.
        """
        _check_width("images: expected features", "n", features, sum(self._config.image_dims))
        graph, starts = self._side("images", query), range(0, len(features), _BATCH)
        parts = (np.asarray(features[i : i + _BATCH], np.float32) for i in starts)
        return np.concatenate([self._run(graph, images=part) for part in parts])

    def encode_sentences(self, sentences: PreparedSentences, query: bool = False) -> Vectors:
        """Encode m sentences, at least one; `query` as above.

        Raises:
            SeesayError: the vectors have the wrong width, or the graph is damaged.
        """
        _check_width("sentences: expected vectors", "m", sentences.vectors, self._config.sentence_dim)
        graph, parts = self._side("sentences", query), sentences.split(_BATCH)
        return np.concatenate(
            [self._run(graph, words=some.words, lengths=some.lengths, vectors=some.vectors) for some in parts]
        )

    def score_encoded(self, images: Vectors, sentences: Vectors) -> NDArray[np.floating]:
        """Score all pairs of encoded images and sentences with a pair matcher, (n, m)."""
        rows, columns = (each.ravel() for each in np.indices((len(images), len(sentences))))
        few = max(_PAIRS // (images[0].nbytes + sentences[0].nbytes), 1)
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), few):
            part = slice(start, start + few)
            pairs = {"images": images[rows[part]], "sentences": sentences[columns[part]]}
            scores[part] = self._run("pairs", **pairs)
        return scores.reshape(len(images), len(sentences))

    def _side(self, name: str, query: bool) -> str:
        return f"query_{name}" if query and self._config.asymmetric else name

    def _run(self, graph: str, **inputs: NDArray[Any]) -> Vectors:
        """Compute the output of a graph, which may leave inputs unused."""
        with self._lock:
            session = self._sessions.get(graph) or self._opened(graph)
            self._sessions[graph] = session
        path, used = self._folder / f"{graph}.onnx", {each.name for each in session.get_inputs()}
        given = {name: np.ascontiguousarray(inputs[name]) for name in inputs.keys() & used}
        output: Vectors = compute(path, session, given)[0]
        if output.ndim == 0:
            raise SeesayError(f"{path}: cannot be computed (its output is a single number); {_REMEDY}.")
        return output

    def _opened(self, graph: str) -> InferenceSession:
        """Open a session of a graph on the CPU, in single precision."""
        path, known = self._folder / f"{graph}.onnx", self._config.graphs
        try:
            if file_digest(path) != known[graph].digest:
                raise SeesayError(f"{path}: not the one that {RUN} names; {_REMEDY}.")
            with safe_open(self._folder / WEIGHTS, "np") as file:
                named = known[graph].weights
                weights = {PREFIX + key: np.asarray(file.get_tensor(key), np.float32) for key in named}
        except (OSError, LookupError, TypeError, SafetensorError) as error:  # a TypeError for bfloat16
            raise unusable(path, error, f"damaged or missing; {_REMEDY}.") from error
        return onnx_session(path, 0 if graph == "pairs" else 1, _REMEDY, weights)


def _check_width(what: str, count: str, rows: Vectors, width: int) -> None:
    if rows.ndim != 2 or rows.shape[1] != width:
        raise SeesayError(f"{what} of shape ({count}, {width}), got {rows.shape}.")


def score_all_pairs(
    backend: OnnxBackend | TorchBackend,
    images: Any,
    sentences: Any,
    advance: Advance = lambda _: None,
    block: int = _BLOCK,
) -> NDArray[np.float32]:
    """Score all pairs of encoded images and sentences with a pair matcher, (n, m), in blocks of images.

    `advance` is called with the number of pairs of each block, about `block`; at least one image's.
    """
    scores = np.empty((len(images), len(sentences)), np.float32)
    few = min(max(block // max(len(sentences), 1), 1), _IMAGES)
    for top in range(0, len(images) if len(sentences) else 0, few):
        rows = backend.score_encoded(images[top : top + few], sentences)
        scores[top : top + few] = rows
        advance(rows.size)
    return scores
