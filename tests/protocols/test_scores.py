"""The scores of a split: from vectors and from a matrix they are the same."""

from __future__ import annotations

import numpy as np
import pytest

from seesay.protocols.subject import Embeddings, Scores

OWN = np.array([0, 0, 1, 2, 3, 3])


def embedded(asymmetric: bool) -> Scores:
    generator = np.random.default_rng(2)
    images, sentences, *queries = (generator.normal(size=(n, 5)).astype(np.float32) for n in (4, 6, 4, 6))
    if not asymmetric:
        return Scores(Embeddings(images, sentences))
    return Scores(Embeddings(queries[0], sentences), Embeddings(images, queries[1]))


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("part", [(slice(None), slice(None), OWN), (slice(1, 3), slice(2, 4), OWN[2:4] - 1)])
def test_vectors_and_their_products_rank_alike(asymmetric: bool, part: tuple) -> None:
    vectors = embedded(asymmetric)
    matrix = Scores(*vectors.by_direction())
    ranked, expected = vectors.ranks(*part), matrix.ranks(*part)
    np.testing.assert_array_equal(ranked.sentence, expected.sentence)
    np.testing.assert_array_equal(ranked.image, expected.image)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_the_query_decides_only_where_it_is_embedded_differently(asymmetric: bool) -> None:
    of_images, of_sentences = embedded(asymmetric).by_direction()
    assert of_images.shape == of_sentences.shape == (4, 6)
    assert np.array_equal(of_images, of_sentences) != asymmetric
