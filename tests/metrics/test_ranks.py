"""Ranks against loops that follow the definition word by word."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.metrics.ranks import NO_ANSWER, embedding_ranks, ranks, shared_ranks


def naive_sentence_ranks(scores, owners):
    result = []
    for i, row in enumerate(scores.tolist()):
        own = [score for score, owner in zip(row, owners, strict=True) if owner == i]
        foreign = [score for score, owner in zip(row, owners, strict=True) if owner != i]
        result.append(sum(score >= max(own) for score in foreign) if own else NO_ANSWER)
    return result


def naive_image_ranks(scores, owners):
    table = scores.tolist()
    return [
        sum(table[i][j] >= table[owner][j] for i in range(len(table)) if i != owner)
        for j, owner in enumerate(owners)
    ]


@st.composite
def tied_scores(draw):
    n = draw(st.integers(1, 9))
    owners = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=30))
    levels = draw(st.integers(1, 4))  # few levels, so that ties abound
    seed = draw(st.integers(0, 2**32 - 1))
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.uint16, np.int64]))
    scores = np.random.default_rng(seed).integers(0, levels, (n, len(owners))).astype(dtype)
    return scores, owners


@given(tied_scores())
@settings(max_examples=100)
def test_ranks_are_those_of_the_definition(case):
    scores, owners = case
    assert ranks(scores, owners).sentence.tolist() == naive_sentence_ranks(scores, owners)
    assert ranks(scores, owners).image.tolist() == naive_image_ranks(scores, owners)


@pytest.mark.parametrize("shape", [(300, 31), (3, 200_000), (1500, 400)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_matrices_larger_than_a_block_rank_the_same(shape, order):
    rng = np.random.default_rng(0)
    scores = np.asarray(rng.integers(0, 5, shape).astype(np.float32), order=order)
    owners = rng.integers(0, shape[0], shape[1])
    found = ranks(scores, owners)
    best = np.full(shape[0], -np.inf)
    own = scores[owners, np.arange(shape[1])]
    np.maximum.at(best, owners, own)
    assert found.image.tolist() == ((scores >= own).sum(axis=0) - 1).tolist()
    foreign = owners != np.arange(shape[0])[:, None]
    expected = ((scores >= best[:, None]) & foreign).sum(axis=1)
    assert found.sentence.tolist() == np.where(np.isinf(best), NO_ANSWER, expected).tolist()


def test_more_than_255_rows_in_a_block_do_not_overflow_a_byte():
    scores = np.zeros((1000, 2), np.float32)
    assert ranks(scores, [0, 999]).image.tolist() == [999, 999]


@given(st.integers(1, 60), st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from(["f2", "f4", "f8"]))
@settings(max_examples=50)
def test_embeddings_rank_as_their_score_matrix(n, m, seed, dtype):
    rng = np.random.default_rng(seed)
    images, sentences = (rng.integers(-2, 3, (k, 4)).astype(dtype) for k in (n, m))
    owners = rng.integers(0, n, m)
    matrix = ranks(images.astype(np.float64) @ sentences.astype(np.float64).T, owners)
    streamed = embedding_ranks(images, sentences, owners)
    assert streamed.sentence.tolist() == matrix.sentence.tolist()
    assert streamed.image.tolist() == matrix.image.tolist()


def test_embeddings_of_more_than_a_block_rank_as_their_score_matrix():
    rng = np.random.default_rng(4)
    images, sentences = (rng.integers(-2, 3, (k, 3)).astype(np.float32) for k in (300, 70_000))
    owners = rng.integers(0, 300, 70_000)
    matrix, streamed = ranks(images @ sentences.T, owners), embedding_ranks(images, sentences, owners)
    assert np.array_equal(streamed.sentence, matrix.sentence)
    assert np.array_equal(streamed.image, matrix.image)


def test_tensors_rank_as_arrays():
    scores = torch.randn(6, 9, generator=torch.Generator().manual_seed(0), requires_grad=True)
    owners = torch.arange(9) % 6
    expected = ranks(scores.detach().numpy(), owners.numpy())
    assert np.array_equal(ranks(scores, owners).image, expected.image)
    half = scores.detach().bfloat16()
    assert np.array_equal(ranks(half, owners).sentence, ranks(half.float().numpy(), owners).sentence)


def test_a_query_never_loses_to_itself_in_rounded_products():
    rng = np.random.default_rng(3)
    images = rng.standard_normal((200, 257)).astype(np.float32)
    found = embedding_ranks(images, np.repeat(images, 3, axis=0), np.repeat(np.arange(200), 3))
    assert not found.sentence.any()
    assert not found.image.any()


@pytest.mark.parametrize("count", [1, 6, 13, 30, 50])
def test_equal_vectors_tie_whatever_the_processor_multiplies_them_with(count):
    image, sentence = np.random.default_rng(count).normal(size=(2, 50))
    found = embedding_ranks(np.tile(image, (count, 1)), np.tile(sentence, (count, 1)), range(count))
    assert (found.sentence == count - 1).all()
    assert (found.image == count - 1).all()


def test_a_constant_scorer_comes_last():
    owners = np.repeat(np.arange(50), 5)
    found = ranks(np.ones((50, 250), np.float32), owners)
    assert (found.sentence == 245).all()
    assert (found.image == 49).all()


def test_memory_mapped_half_precision(tmp_path):
    rng = np.random.default_rng(1)
    scores = rng.standard_normal((40, 90)).astype(np.float16)
    np.save(tmp_path / "scores.npy", scores)
    owners = rng.integers(0, 40, 90)
    found = ranks(np.load(tmp_path / "scores.npy", mmap_mode="r"), owners)
    assert found.sentence.tolist() == naive_sentence_ranks(scores, owners)
    assert found.image.tolist() == naive_image_ranks(scores, owners)


def test_infinities_are_ordered_like_numbers():
    scores = np.array([[-np.inf, np.inf], [-np.inf, 3.0]])
    assert ranks(scores, [0, 1]).image.tolist() == [1, 1]
    assert ranks(scores, [0, 1]).sentence.tolist() == [1, 0]


def test_large_whole_numbers_are_not_rounded():
    scores = np.array([[2**60 + 1, 2**60]])
    assert ranks(np.vstack([scores, scores]), [0, 1]).sentence.tolist() == [0, 1]


@pytest.mark.parametrize("row", [0, 299])
def test_nan_is_refused_with_its_place(row):
    scores = np.zeros((300, 4), np.float32)
    scores[row, 2] = np.nan
    with pytest.raises(SeesayError, match=rf"NaN at \[{row}, 2\]"):
        ranks(scores, [0, 1, 2, 3])


def test_nan_of_a_product_is_refused():
    images = np.full((3, 2), np.inf, np.float32)
    with pytest.raises(SeesayError, match=r"NaN at \[0, 1\]"):
        embedding_ranks(images, np.array([[1.0, 1.0], [1.0, -1.0]]), [0, 1])


@pytest.mark.parametrize(
    ("scores", "owners", "said"),
    [
        (np.zeros(3), [0], "shape"),
        (np.zeros((2, 3)), [0, 1], r"it must be \(3,\)"),
        (np.zeros((2, 3)), [0, 1, 2], "sentence 2 belongs to image 2"),
        (np.zeros((2, 3)), [0, -1, 1], "sentence 1 belongs to image -1"),
        (np.zeros((2, 3)), [0.0, 1.0, 1.0], "whole number"),
        (np.zeros((0, 3)), [0, 0, 0], "nothing to rank"),
        (np.zeros((3, 0)), np.zeros(0, int), "nothing to rank"),
        (np.zeros((2, 2), complex), [0, 1], "real numbers"),
        (np.array([["a", "b"]]), [0, 0], "real numbers"),
        (
            [[0.1, 0.2], [0.3]],
            [0, 1],
            r"scores: lists of different lengths; it must be \(n_images, n_sentences\)",
        ),
    ],
)
def test_wrong_shapes_and_dtypes_are_refused(scores, owners, said):
    with pytest.raises(SeesayError, match=said):
        ranks(scores, owners)


def test_embeddings_of_different_widths_are_refused():
    with pytest.raises(SeesayError, match=r"sentences: shape \(2, 4\); it must be \(n_sentences, 3\)"):
        embedding_ranks(np.zeros((2, 3)), np.zeros((2, 4)), [0, 1])


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 4))
def test_a_shared_sentence_is_right_for_every_image_that_carries_it(seed: int, n: int, kinds: int) -> None:
    rng = np.random.default_rng(seed)
    owners, texts = rng.integers(0, n, 9), rng.integers(0, kinds, 9)
    of_images, of_sentences = rng.integers(0, 4, (2, n, 9)).astype(np.float32)
    right = np.array([[texts[j] in texts[owners == i] for j in range(9)] for i in range(n)])
    found = shared_ranks(of_images, of_sentences, owners, texts)
    for i in range(n):
        mine = [s for s, own in zip(of_images[i], right[i], strict=True) if own]
        others = [s for s, own in zip(of_images[i], right[i], strict=True) if not own]
        assert found.sentence[i] == (sum(s >= max(mine) for s in others) if mine else NO_ANSWER)
    for j in range(9):
        mine, others = of_sentences[right[:, j], j], of_sentences[~right[:, j], j]
        assert found.image[j] == (others >= mine.max()).sum()
    of_all_different = shared_ranks(of_images, of_images, owners, np.arange(9))
    plain = ranks(of_images, owners)
    assert np.array_equal(of_all_different.sentence, plain.sentence)
    assert np.array_equal(of_all_different.image, plain.image)
