"""Training that starts from a run and preserves its scores, optionally with smaller vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from seesay.encoders.sentences.class_names import class_phrases
from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher
from seesay.matchers.projection import JointProjection, Projection
from seesay.matchers.sentences import Sentences
from seesay.recipes.schema import KeepSettings
from seesay.runs.inputs import sentence_vectors
from seesay.runs.run import Run
from seesay.runs.sentences import PreparedSentences, number_words
from seesay.training.sentence_task import SentenceTask

_STREAM = 4  # of random numbers, beside the sampler's, class pairs', views' and those of corpora beside
_AT_ONCE = 1000
_DAMPING = 0.015  # of the mean square of a number, added to all: directions that hardly occur are no reason
_USUAL = 3000  # images and sentences that say how long vectors are


@dataclass
class Keeper:
    """The scores of a run as a target, for the pairs of a mini-batch and for names outside the corpus.

    After Hinton, Vinyals, Dean 2015, and Li and Hoiem, "Learning without Forgetting", ECCV 2016.
    """

    matcher: EmbeddingMatcher
    phrases: PreparedSentences
    settings: KeepSettings

    def begin_epoch(self, seed: int, epoch: int) -> None:
        """Restart the random numbers from the run's seed and the epoch."""
        self._draw = np.random.default_rng([seed, epoch, _STREAM])

    def loss(self, matcher: EmbeddingMatcher, images: Tensor, sentences: Sentences) -> Tensor:
        """Return the distance of a matcher from the run, for features (n, d) and n sentences."""
        device = str(images.device)
        chosen = self._draw.choice(len(self.phrases), self.settings.phrases, replace=False)
        phrases = self.phrases.take(chosen).to_tensors(device)
        shares = torch.from_numpy(self._draw.uniform(0, 0.5, (len(images), 1)).astype(np.float32)).to(device)
        others = torch.from_numpy(self._draw.permutation(len(images))).to(device)
        mixed = torch.lerp(images, images[others], shares)  # images of several things
        pairs = self._distance(matcher, images, sentences)
        return self.settings.weight * pairs + self.settings.phrase_weight * self._distance(
            matcher, mixed, phrases
        )

    def _distance(self, matcher: EmbeddingMatcher, images: Tensor, sentences: Sentences) -> Tensor:
        with torch.no_grad():
            wanted = self.settings.scale * self.matcher(images, sentences)
        found = self.settings.scale * matcher(images, sentences)
        both = ((found, wanted), (found.T, wanted.T))
        ways = [
            functional.kl_div(a.log_softmax(1), b.log_softmax(1), reduction="batchmean", log_target=True)
            for a, b in both
        ]
        return (ways[0] + ways[1]) / 2


def phrases_of(start: Run) -> PreparedSentences:
    """Return the names of the ImageNet classes, and a run's words, alone and with an article."""
    words = [word for word in start.vocabulary.words if word.isalpha()]
    texts = [*class_phrases().texts, *words, *(f"a {word}" for word in words)]
    vectors = sentence_vectors(start.sentence_encoder, texts) if start.sentence_encoder else None
    return number_words(texts, start.vocabulary, vectors)


def keeper_of(start: Run, settings: KeepSettings) -> Keeper:
    """Return the `Keeper` of a run.

    Raises:
        SeesayError: the run has no embedding.
    """
    matcher = start.matcher
    if not isinstance(matcher, EmbeddingMatcher):
        raise SeesayError(f"{start.name}: a pair matcher has no embeddings; start from another run.")
    matcher.eval().requires_grad_(False)
    return Keeper(matcher, phrases_of(start), settings)


def reduce(start: Run, matcher: JointProjection, task: SentenceTask) -> None:
    """Initialise a matcher as the best approximation of an ensemble's scores with its rank.

    Scores are those of all train images and sentences, and of names; each corpus has the same weight, and so
    have names.

    Raises:
        SeesayError: the run is not an ensemble with class evidence, or has other sizes.
    """
    ensemble, members = start.matcher, len(matcher.hidden)
    if (
        not isinstance(ensemble, Projection)
        or ensemble.evidence is None
        or len(ensemble.members) != members
        or ensemble.vocabulary_size != matcher.vocabulary_size
    ):
        raise SeesayError(
            f"{start.name}: its weights do not fit; a joint projection starts from a projection of {members} "
            "members with class evidence: name such a run with --from."
        )
    ensemble.eval()
    sources = [task.data, *(each.inputs for each in task.beside)]
    images = [_images(ensemble, source.features) for source in sources]
    sentences = [_sentences(ensemble, source.sentences) for source in sources]
    sentences.append(_sentences(ensemble, phrases_of(start)))
    found = axes(_moments(images), _moments(sentences), matcher.image_map.out_features)
    some = np.linspace(0, len(task.data.sentences) - 1, _USUAL).astype(np.int64)
    usual = torch.from_numpy(task.data.features[task.data.image_of_sentence[some]]).float()
    matcher.take_over(ensemble, *found, usual, task.data.sentences.take(some).to_tensors())


@torch.no_grad()
def _images(ensemble: Projection, features: NDArray[np.floating]) -> NDArray[np.float64]:
    parts = np.array_split(features, max(len(features) // _AT_ONCE, 1))
    return np.concatenate(
        [ensemble.embed_images(torch.from_numpy(each).float()).double().numpy() for each in parts]
    )


@torch.no_grad()
def _sentences(ensemble: Projection, prepared: PreparedSentences) -> NDArray[np.float64]:
    parts = np.array_split(np.arange(len(prepared)), max(len(prepared) // _AT_ONCE, 1))
    return np.concatenate(
        [ensemble.embed_sentences(prepared.take(each).to_tensors()).double().numpy() for each in parts]
    )


def _moments(sources: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Second moments (d, d) of vectors, with equal weight for each source."""
    found = sum((each.T @ each / len(each) for each in sources), np.zeros(2 * (sources[0].shape[1],)))
    width = len(found)
    return np.asarray(found + _DAMPING * np.trace(found) / width * np.eye(width))


def axes(images: NDArray[np.float64], sentences: NDArray[np.float64], dim: int) -> tuple[Tensor, Tensor]:
    """Return axes of images and of sentences, (d, dim) each, that change inner products least.

    In the sense of least squares, of vectors with these second moments: by the singular values of the product
    of their Cholesky factors.
    """
    left, right = np.linalg.cholesky(images), np.linalg.cholesky(sentences)
    u, values, vt = np.linalg.svd(left.T @ right)
    roots = np.sqrt(values[:dim])
    found = np.linalg.solve(left.T, u[:, :dim] * roots), np.linalg.solve(right.T, vt[:dim].T * roots)
    return torch.from_numpy(found[0]).float(), torch.from_numpy(found[1]).float()
