import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.metrics import RetrievalMetrics, mean_rank, median_rank, recall_at_k, retrieval_metrics


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_measures_are_those_of_the_definition(ranks):
    for k in (1, 5, 10):
        expected = 100 * sum(rank + 1 <= k for rank in ranks) / len(ranks)
        assert recall_at_k(ranks, k) == pytest.approx(expected)
    middle = sorted(ranks)
    half = len(ranks) // 2
    median = middle[half] if len(ranks) % 2 else (middle[half - 1] + middle[half]) // 2
    assert median_rank(ranks) == median + 1
    assert mean_rank(ranks) == pytest.approx(sum(ranks) / len(ranks) + 1)


def test_median_rank_of_an_even_number_of_queries_is_floored():
    assert median_rank([0, 1]) == 1
    assert median_rank([0, 3]) == 2


def test_images_without_sentences_are_no_queries():
    assert recall_at_k([0, -1, -1, 7], 5) == recall_at_k([0, 7], 5) == 50
    with pytest.raises(SeesayError, match="no query"):
        median_rank(np.array([-1, -1]))
    with pytest.raises(SeesayError, match=r"ranks: shape \(1, 2\); it must be \(q,\)"):
        recall_at_k([[0, 1]], 5)


@pytest.mark.parametrize("k", [0, -1, 1.5])
def test_k_is_a_whole_number_of_candidates(k):
    with pytest.raises(SeesayError, match=f"k: expected a whole number of at least 1, got {k}"):
        recall_at_k([0, 1], k)


def test_both_directions_of_a_score_matrix():
    found = retrieval_metrics([[0.9, 0.2, 0.8], [0.1, 0.7, 0.8]], [0, 0, 1])
    assert found == {
        "S R@1": 100.0,
        "S R@5": 100.0,
        "S R@10": 100.0,
        "S Med r": 1.0,
        "I R@1": pytest.approx(100 / 3),
        "I R@5": 100.0,
        "I R@10": 100.0,
        "I Med r": 2.0,
        "mR": pytest.approx((5 * 100 + 100 / 3) / 6),
        "S Mean r": 1.0,
        "I Mean r": pytest.approx(5 / 3),
        "rsum": pytest.approx(5 * 100 + 100 / 3),
    }


def test_a_constant_scorer_gains_nothing():
    found = retrieval_metrics(np.ones((40, 120)), np.repeat(np.arange(40), 3))
    assert found["mR"] == 0
    with pytest.raises(SeesayError, match=r"ranks: NaN at \[1\]"):
        recall_at_k([0, np.nan], 1)


def test_other_k_the_mean_rank_and_rsum() -> None:
    rng = np.random.default_rng(4)
    scores, owners = rng.normal(size=(7, 21)), np.repeat(np.arange(7), 3)
    found = retrieval_metrics(scores, owners, k=(2, 3))
    image = [1 + sum(scores[:, j] > scores[owners[j], j]) for j in range(21)]
    sentence = [1 + min(sum(row > each) for each in row[owners == i]) for i, row in enumerate(scores)]
    for way, places in (("I", image), ("S", sentence)):
        assert found[f"{way} Mean r"] == pytest.approx(np.mean(places))
        assert found[f"{way} R@3"] == pytest.approx(100 * np.mean(np.array(places) <= 3))
    recalls = [found[f"{way} R@{k}"] for way in "SI" for k in (2, 3)]
    assert (found["rsum"], found["mR"]) == (pytest.approx(sum(recalls)), pytest.approx(np.mean(recalls)))
    with pytest.raises(SeesayError, match="k: "):
        retrieval_metrics(scores, owners, k=())


def test_batches_are_measured_as_a_whole() -> None:
    rng = np.random.default_rng(5)
    images, owners = rng.normal(size=(12, 4)), np.repeat(np.arange(12), 2)
    sentences = images[owners] + rng.normal(size=(24, 4))
    for wrong in ((), (0, 5)):
        with pytest.raises(SeesayError, match="k: "):
            RetrievalMetrics(wrong)
    metrics = RetrievalMetrics()
    with pytest.raises(SeesayError, match="update with a batch"):
        metrics.compute()
    for first in range(0, 12, 5):
        batch = slice(first, first + 5)
        chosen = (owners >= first) & (owners < first + 5)
        metrics.update(images[batch], sentences[chosen], owners[chosen] - first)
    assert metrics.compute() == pytest.approx(retrieval_metrics(images @ sentences.T, owners))
    with pytest.raises(SeesayError, match="NaN"):
        metrics(images[:1] * np.nan, sentences[:1])
    assert metrics.compute() == pytest.approx(retrieval_metrics(images @ sentences.T, owners))
    metrics.reset()
    buffer = np.eye(3)
    metrics.update(buffer, buffer, np.arange(3))
    buffer[:] = 0  # the next batch is read into the same memory
    assert metrics.compute()["rsum"] == 600
    metrics.reset()
    metrics.update(torch.eye(3), torch.eye(3), torch.arange(3))
    assert metrics.compute()["rsum"] == 600
    with pytest.raises(SeesayError, match="belongs to image 7"):
        metrics.update(np.eye(3), np.eye(3), [0, 1, 7])


def test_k_may_be_an_array_and_must_be_several() -> None:
    scores, owners = np.eye(3), [0, 1, 2]
    assert retrieval_metrics(scores, owners, k=np.array([1, 3]))["S R@3"] == 100
    for k in (5, np.int64(5), 5.0, None):
        with pytest.raises(SeesayError, match="k: expected several numbers"):
            retrieval_metrics(scores, owners, k=k)


def test_a_square_matrix_with_images_repeated_for_each_sentence_is_the_same_split() -> None:
    rng = np.random.default_rng(6)
    images, owners = rng.normal(size=(20, 8)), np.repeat(np.arange(20), 5)
    sentences = images[owners] + rng.normal(size=(100, 8))
    scores = images @ sentences.T
    wanted = retrieval_metrics(scores, owners)
    repeated = scores[owners] + 1e-9 * rng.normal(size=(100, 100))  # rounded otherwise in another batch
    assert retrieval_metrics(repeated, owners) == pytest.approx(wanted)
    assert retrieval_metrics(repeated, 5 * owners) == pytest.approx(wanted)  # the row of its first repetition
    shuffled = rng.permutation(100)
    assert retrieval_metrics(repeated[shuffled][:, shuffled], owners[shuffled]) == pytest.approx(wanted)
    with pytest.raises(SeesayError, match="row 1 is not that of its image's first sentence, row 0"):
        retrieval_metrics(rng.normal(size=(100, 100)), owners)


def test_an_image_without_a_sentence_is_an_error_and_named() -> None:
    with pytest.raises(SeesayError, match=r"3 images, but 1 of them have no sentence .*image 1"):
        retrieval_metrics(np.eye(3)[:, :2], [0, 2])


def test_a_loader_of_pairs_may_show_an_image_in_several_batches() -> None:
    rng = np.random.default_rng(7)
    images, owners = rng.normal(size=(6, 4)), np.repeat(np.arange(6), 3)
    sentences = images[owners] + rng.normal(size=(18, 4))
    order = rng.permutation(18)
    metrics, processes = RetrievalMetrics(), [RetrievalMetrics(), RetrievalMetrics()]
    for at, chosen in enumerate(np.split(order, 6)):
        batch = images[owners[chosen]], sentences[chosen]
        metrics.update(*batch, image_ids=100 + owners[chosen])
        alone = processes[at % 2](*batch, image_ids=torch.from_numpy(100 + owners[chosen]))
        assert alone["I R@5"] == 100  # among the batch's own three images
    wanted = pytest.approx(retrieval_metrics(images @ sentences.T, owners))
    assert metrics.compute() == wanted
    assert sum(processes).compute() == wanted  # type: ignore[union-attr]


def test_batches_without_ids_show_different_images() -> None:
    rng = np.random.default_rng(8)
    images, sentences = rng.normal(size=(2, 10, 4))
    metrics = RetrievalMetrics()
    for batch in np.split(np.arange(10), [3, 7]):
        metrics.update(images[batch], sentences[batch])
    assert metrics.compute() == retrieval_metrics(images @ sentences.T, np.arange(10))


def test_only_metrics_that_fit_add_up() -> None:
    metrics = RetrievalMetrics()
    metrics.update(np.eye(3), np.eye(3))
    for other in (1, None, RetrievalMetrics(k=(1,))):
        with pytest.raises(TypeError, match="unsupported operand"):
            other + metrics
        with pytest.raises(TypeError, match="unsupported operand"):
            metrics + other
    with pytest.raises(SeesayError, match="images: the batches have embeddings of different widths"):
        metrics.update(np.eye(2), np.eye(2))
    with pytest.raises(SeesayError, match="image_ids: some batches have ids and others none"):
        metrics(np.eye(3), np.eye(3), image_ids=[0, 1, 2])
    assert metrics.compute()["rsum"] == 600  # a batch that was refused has not been added


def test_batches_of_repeated_images_and_of_pairs_are_understood() -> None:
    metrics = RetrievalMetrics((1,))
    metrics.update(np.repeat(np.eye(2), 2, axis=0), np.repeat(np.eye(2), 2, axis=0), [0, 0, 1, 1])
    metrics.update(-np.eye(2), -np.eye(2))
    assert metrics.compute()["S R@1"] == metrics.compute()["I R@1"] == 100
    with pytest.raises(SeesayError, match="2 images and 3 sentences are no pairs"):
        metrics.update(np.eye(2), np.eye(3)[:, :2])
    with pytest.raises(SeesayError, match="image_ids: shape"):
        metrics.update(np.eye(2), np.eye(2), image_ids=[1])
