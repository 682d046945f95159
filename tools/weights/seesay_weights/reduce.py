"""Write the run that the joint projection starts from: an ensemble's scores in fewer numbers.

python -m seesay_weights.reduce RECIPE ENSEMBLE OUT CORPUS...

RECIPE is that of the joint projection, ENSEMBLE a run of a `projection` with class evidence, and OUT the new
run, from which `seesay train RECIPE --from OUT` continues. It is the best approximation of the ensemble's
scores with its rank, for the train images and sentences of the corpora and for known phrases; each corpus has
the same weight, and so have the phrases.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.matchers.projection import CLASSES, JointProjection, Projection, joined_words
from seesay.matchers.sentences import Sentences
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.runs.torch_backend import new_matcher, save_weights
from seesay.training.words import PretrainedVectors
from seesay_weights.keep import known_phrases

_DAMPING = 0.015  # share of the mean second moment that is added to each, so rare directions count less
_USUAL = 3000  # images and sentences by which the lengths of vectors are measured


def reduce(recipe: Recipe, start: Run, corpora: Sequence[Corpus], out: Path) -> Run:
    """Write the reduced run into a folder.

    Raises:
        SeesayError: the run is not an ensemble with class evidence, or has other sizes than the recipe.
    """
    ensemble, words, encoder = start.matcher, start.vocabulary, start.sentence_encoder
    splits = [split_inputs(recipe, each, "train", words, encoder) for each in corpora]
    first = splits[0]
    matcher = new_matcher(recipe, words, encoder, first.image_dims)
    assert isinstance(matcher, JointProjection)
    members = len(matcher.hidden)
    fits = isinstance(ensemble, Projection) and ensemble.evidence and len(ensemble.members) == members
    if not fits or not isinstance(ensemble, Projection):
        raise SeesayError(
            f"{start.name}: a joint projection starts from a projection of {members} members with class "
            "evidence; name such a run."
        )
    images = [start.embed_features(split.features) for split in splits]
    sentences = [
        start.embed_prepared(each) for each in (*(split.sentences for split in splits), known_phrases(start))
    ]
    found = axes(_moments(images), _moments(sentences), matcher.image_map.out_features)
    some = np.linspace(0, len(first.sentences) - 1, _USUAL).astype(np.int64)
    usual = torch.from_numpy(first.features[first.image_of_sentence[some]]).float().to(start.device)
    matcher.to(start.device)
    left, right = (each.to(start.device) for each in found)
    take_over(matcher, ensemble, (left, right), usual, first.sentences.take(some).to_tensors(start.device))
    # The vectors of the classes are not learned, and are those of the encoder as it is now.
    matcher.prepare(PretrainedVectors(words))
    run = Run.from_matcher(out, recipe, words, encoder, matcher, first.image_dims)
    run.save_inputs()
    save_weights(out, matcher.state_dict())
    return run


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


@torch.no_grad()
def take_over(
    joint: JointProjection,
    ensemble: Projection,
    axes_of_both: tuple[Tensor, Tensor],
    images: Tensor,
    read: Sentences,
) -> None:
    """Initialise a joint projection as an ensemble whose vectors are projected onto axes.

    Members normalise their vectors to unit length, which these maps cannot; instead, each map is divided by
    the mean length of its outputs.

    Args:
        joint: of the ensemble's widths.
        ensemble: with class evidence.
        axes_of_both: of its image vectors and of its sentence vectors, (its dim, dim) each.
        images: features (n, d) of typical images.
        read: typical sentences.
    """
    image_axes, sentence_axes = axes_of_both
    members = ensemble.members
    width = len(image_axes) - CLASSES
    of_images, of_sentences = (
        image_axes[:width].chunk(len(members)),
        sentence_axes[:width].chunk(len(members)),
    )
    image_map, sentence_map = joint.image_map, joint.sentence_map
    pooled = ensemble.arrays(images)[0]
    weight, bias, outer = torch.zeros_like(image_map.weight), torch.zeros_like(image_map.bias), []
    sentence_bias = torch.zeros_like(sentence_map.bias)
    share = math.sqrt(1 / len(members))
    for number, member in enumerate(members):
        mapped = member.image_map(pooled).norm(dim=1).mean()
        onto = of_images[number].T * (share * math.sqrt(0.5) / mapped)
        weight += onto @ _linear(member.image_map, 1).weight
        bias += onto @ _linear(member.image_map, 1).bias
        mapped = member.sentence_map(joined_words(member.words, read)).norm(dim=1).mean()
        onto = of_sentences[number].T * (share / mapped)
        outer.append(onto @ _linear(member.sentence_map, 4).weight)
        sentence_bias += onto @ _linear(member.sentence_map, 4).bias
        joint.words[number].load_state_dict(member.words.state_dict())
        cast(nn.Sequential, joint.hidden[number])[1].load_state_dict(member.sentence_map[1].state_dict())
    assert ensemble.evidence is not None
    joint.evidence.load_state_dict(ensemble.evidence.state_dict())
    inner, outer_map = _linear(members[0].image_map, 1), _linear(members[0].sentence_map, 4)
    classes = image_axes[width:].T * math.sqrt(0.5)
    _copy_as_large(
        inner, (image_map.weight, weight), (image_map.bias, bias), (joint.image_classes.weight, classes)
    )
    of_layers = (sentence_map.weight, torch.cat(outer, dim=1))
    of_classes = (joint.sentence_classes.weight, sentence_axes[width:].T)
    _copy_as_large(outer_map, of_layers, (sentence_map.bias, sentence_bias), of_classes)


def _linear(layers: nn.Sequential, at: int) -> nn.Linear:
    return cast(nn.Linear, layers[at])


def _copy_as_large(like: nn.Linear, *found: tuple[Tensor, Tensor]) -> None:
    """Copy weights, whose common factor is arbitrary, at the scale of a trained layer, for the optimizer.

    Args:
        like: the trained layer.
        found: pairs of a parameter and its new values; the first pair's are scaled to the layer's size.
    """
    factor = like.weight.std() / found[0][1].std()
    for parameter, values in found:
        parameter.copy_(values * factor)


if __name__ == "__main__":
    recipe, ensemble, out, *corpora = sys.argv[1:]
    opened = [read_corpus(Path(each)) for each in corpora]
    made = reduce(load_recipe(recipe, opened[0].name), Run.load(ensemble), opened, Path(out))
    print(f"{out}: {made.dim} numbers for each image and sentence")
