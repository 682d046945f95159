"""Training that starts from a run's weights or a smaller approximation, and may preserve its scores."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from seesay.encoders.sentences.class_names import class_phrases, with_article
from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher
from seesay.matchers.projection import JointProjection, Projection
from seesay.matchers.sentences import Sentences
from seesay.recipes.schema import KeepSettings, Recipe
from seesay.runs.inputs import prepare_texts
from seesay.runs.run import Run
from seesay.runs.sentences import PreparedSentences
from seesay.runs.trained import misfit
from seesay.training.further import BesidePairs, FurtherLoss, Step
from seesay.training.sentence_task import SentenceTask
from seesay.training.task import Task
from seesay.training.words import PretrainedVectors

_DEPARTURE = "Starts from the weights of"
# Weights that were learned from other inputs may have the right shapes, but another meaning.
_INPUTS = ("encoders", "arrays", "sentence_encoder", "regions")
_DAMPING = 0.015  # share of the mean second moment that is added to each, so rare directions count less
_USUAL = 3000  # images and sentences by which the lengths of vectors are measured


def recipe_from(start: Run, recipe: Recipe) -> Recipe:
    """Return the recipe of a training that starts from a run's weights, with a departure that says so.

    Raises:
        SeesayError: the recipe is composed, is solved or learns concepts, or reads other inputs than the run.
    """
    if recipe.matcher.is_composed:
        raise SeesayError(f"Recipe '{recipe.name}' combines runs; start its members from others, one by one.")
    if recipe.loss.loss_class.closed_form or recipe.matcher.predicts_concepts:
        raise SeesayError(
            f"Recipe '{recipe.name}' cannot start from weights: it is solved, or learns concepts."
        )
    for key in _INPUTS:
        mine, theirs = getattr(recipe, key), getattr(start.recipe, key)
        if mine != theirs:
            raise SeesayError(
                f"{start.name}: was trained with '{key}' {theirs}, and recipe '{recipe.name}' has {mine}; "
                "a training can start only from a run with the same inputs."
            )
    departure = f"{_DEPARTURE} {start.recipe.name}, seed {start.recipe.seed} ({start.fingerprint[:8]})."
    return recipe.model_copy(update={"departures": (*recipe.departures, departure)})


def started_from(recipe: Recipe) -> str | None:
    """Return what a training by this recipe started from, such as "mcnn-st, seed 1 (0a1b2c3d)"; or None."""
    lines = [line for line in recipe.departures if line.startswith(_DEPARTURE)]
    return lines[-1].removeprefix(_DEPARTURE).strip(" .") if lines else None


def start_matcher(start: Run, matcher: nn.Module, recipe: Recipe, task: Task) -> None:
    """Start a matcher from a run, whose scores the task keeps if the recipe says so.

    Raises:
        SeesayError: the run's weights do not fit, or it has no scores that could be kept.
    """
    if isinstance(matcher, JointProjection):
        if isinstance(start.matcher, JointProjection):
            _copy_weights(start, matcher, recipe)
        else:
            assert isinstance(task, SentenceTask)
            reduce(start, matcher, task)
        # The vectors of the classes are not learned, and may have changed since.
        matcher.prepare(PretrainedVectors(start.vocabulary))
    else:
        _copy_weights(start, matcher, recipe)
    if recipe.keep is not None:
        assert isinstance(task, SentenceTask)
        task.further.append(Keeper(start, recipe.keep))


def _copy_weights(start: Run, matcher: nn.Module, recipe: Recipe) -> None:
    """Copy a run's weights into a matcher.

    Raises:
        SeesayError: the matcher has other weights, or weights of other shapes; names the first.
    """
    theirs = start.matcher.state_dict()
    try:
        matcher.load_state_dict(theirs)
    except RuntimeError as failure:
        raise SeesayError(
            f"{start.name}: its weights do not fit recipe '{recipe.name}' "
            f"({misfit(matcher.state_dict(), theirs)}); take the same recipe and the same sizes."
        ) from failure


def reduce(start: Run, matcher: JointProjection, task: SentenceTask) -> None:
    """Initialise a matcher as the best approximation of an ensemble's scores with its rank.

    The scores are those of all train images and sentences, and of known phrases. Each corpus has the same
    weight, and so have the phrases.

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
    sources = [task.data, *(each.inputs for each in task.further if isinstance(each, BesidePairs))]
    images = [start.embed_features(source.features) for source in sources]
    sentences = [
        start.embed_prepared(each) for each in (*(s.sentences for s in sources), known_phrases(start))
    ]
    found = axes(_moments(images), _moments(sentences), matcher.image_map.out_features)
    some = np.linspace(0, len(task.data.sentences) - 1, _USUAL).astype(np.int64)
    usual = torch.from_numpy(task.data.features[task.data.image_of_sentence[some]]).float()
    device = str(start.device)  # where a loaded run is, and a new matcher is not yet
    sentences_there = task.data.sentences.take(some).to_tensors(device)
    left, right = (each.to(device) for each in found)
    matcher.to(device).take_over(ensemble, left, right, usual.to(device), sentences_there)


def _moments(sources: list[NDArray[np.float32]]) -> NDArray[np.float64]:
    """Return the damped second moments (d, d) of vectors, with equal weight for each source."""
    found = np.zeros(2 * (sources[0].shape[1],))
    for each in sources:
        vectors = each.astype(np.float64)
        found += vectors.T @ vectors / len(vectors)
    width = len(found)
    return np.asarray(found + _DAMPING * np.trace(found) / width * np.eye(width))


def axes(images: NDArray[np.float64], sentences: NDArray[np.float64], dim: int) -> tuple[Tensor, Tensor]:
    """Return axes of images and of sentences, (d, dim) each, whose projections change inner products least.

    They minimise the squared error for vectors with these second moments, and come from the singular vectors
    of the product of the Cholesky factors.
    """
    left, right = np.linalg.cholesky(images), np.linalg.cholesky(sentences)
    u, values, vt = np.linalg.svd(left.T @ right)
    roots = np.sqrt(values[:dim])
    found = np.linalg.solve(left.T, u[:, :dim] * roots), np.linalg.solve(right.T, vt[:dim].T * roots)
    return torch.from_numpy(found[0]).float(), torch.from_numpy(found[1]).float()


class Keeper(FurtherLoss):
    """The scores of a run as a target, for the pairs of a mini-batch and for names outside the corpus.

    After Hinton, Vinyals, Dean 2015, and Li and Hoiem, "Learning without Forgetting", ECCV 2016.

    Args:
        start: the run.
        settings: of the recipe.

    Raises:
        SeesayError: the run has no embedding.
    """

    def __init__(self, start: Run, settings: KeepSettings) -> None:
        super().__init__(4)
        if not isinstance(start.matcher, EmbeddingMatcher):
            raise SeesayError(f"{start.name}: a pair matcher has no embeddings; start from another run.")
        self.matcher = start.matcher.eval().requires_grad_(False)
        self.phrases, self.settings = known_phrases(start), settings

    def add_to(self, losses: list[Tensor], step: Step) -> list[Tensor]:
        """See `FurtherLoss`."""
        assert isinstance(step.matcher, EmbeddingMatcher)
        return [losses[0] + self.loss(step.matcher, step.images, step.sentences), *losses[1:]]

    def loss(self, matcher: EmbeddingMatcher, images: Tensor, sentences: Sentences) -> Tensor:
        """Return the distance of a matcher from the run, for features (n, d) and n sentences."""
        device = str(images.device)
        count = min(self.settings.phrases, len(self.phrases))
        chosen = self._draw.choice(len(self.phrases), count, replace=False)
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
            wanted = self.settings.scale * self.matcher.to(images.device)(images, sentences)
        found = self.settings.scale * matcher(images, sentences)
        both = ((found, wanted), (found.T, wanted.T))
        ways = [
            functional.kl_div(a.log_softmax(1), b.log_softmax(1), reduction="batchmean", log_target=True)
            for a, b in both
        ]
        return (ways[0] + ways[1]) / 2


def known_phrases(start: Run) -> PreparedSentences:
    """Return the names of the ImageNet classes, and a run's words, alone and with an article."""
    words = [word for word in start.vocabulary.words if word.isalpha()]
    texts = [*class_phrases().texts, *words, *map(with_article, words)]
    return prepare_texts(texts, start.vocabulary, start.sentence_encoder)
