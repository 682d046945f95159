import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.samplers import SAMPLERS, neighbourhood, rounds

OWNERS = st.lists(st.integers(0, 8), min_size=2, max_size=60).map(lambda xs: np.array(xs, np.int64))


@given(OWNERS, st.integers(2, 20), st.integers(0, 5), st.integers(1, 3))
def test_every_sentence_once_with_its_image(owners, batch: int, seed: int, epoch: int) -> None:
    batches = list(rounds(owners, batch, seed, epoch))
    seen = {sentence for _, sentences in batches for sentence in sentences}
    assert sum(len(sentences) for _, sentences in batches) == len(seen)
    # Left out are a last pair, and batches of the one image that has the most sentences.
    left_out = owners[sorted({*range(len(owners))} - seen)]
    assert len(left_out) <= 1 or np.bincount(left_out).max() >= len(left_out) - 1
    for images, sentences in batches:
        np.testing.assert_array_equal(images, owners[sentences])
        assert len(set(images)) > 1


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_no_batch_shows_one_image_alone(name: str) -> None:
    owners = np.array([0] * 12 + [1, 2, 3])
    for epoch in range(1, 21):
        assert all(len(set(images)) > 1 for images, _ in SAMPLERS[name](owners, 4, 1, epoch))


def test_order_depends_on_seed_and_epoch_alone() -> None:
    owners = np.repeat(np.arange(10), 5)

    def order(seed: int, epoch: int) -> list[int]:
        return [s for _, sentences in rounds(owners, 7, seed, epoch) for s in sentences]

    assert order(1, 1) == order(1, 1)
    assert order(1, 1) != order(1, 2)
    assert order(1, 1) != order(2, 1)


def test_a_batch_within_a_round_holds_different_images() -> None:
    owners = np.repeat(np.arange(100), 5)
    for images, _ in rounds(owners, 50, seed=3, epoch=1):
        assert len(set(images)) == 50


def test_rounds_mix_images_anew_each_time() -> None:
    owners = np.repeat(np.arange(100), 2)
    first, second = (images for images, _ in rounds(owners, 100, seed=3, epoch=1))
    assert list(first) != list(second)


@given(OWNERS, st.integers(2, 20), st.integers(0, 5), st.sampled_from(["random", "neighbourhood"]))
def test_random_batches_hold_every_sentence_with_its_image(owners, batch: int, seed: int, name: str) -> None:
    batches = list(SAMPLERS[name](owners, batch, seed, 1))
    order = np.random.default_rng([seed, 1]).permutation(len(owners))
    sets = [order[start : start + batch] for start in range(0, len(owners), batch)]
    # What has no negative cannot be learned from, nor normalised.
    kept = [one.tolist() for one in sets if len(set(owners[one])) > 1]
    assert [
        sentences[:batch].tolist()[: len(one)] for one, (_, sentences) in zip(kept, batches, strict=True)
    ] == kept
    for images, sentences in batches:
        assert len(set(images)) > 1
        np.testing.assert_array_equal(images, owners[sentences])
        assert len(set(sentences)) == len(sentences)


@given(OWNERS, st.integers(2, 20), st.integers(0, 5))
def test_neighbours_give_each_image_a_second_sentence(owners, batch: int, seed: int) -> None:
    for images, _ in neighbourhood(owners, batch, seed, 1):
        for image in set(images):
            assert (images == image).sum() >= min(2, (owners == image).sum())


def test_second_sentences_are_drawn_from_all_others() -> None:
    owners = np.repeat(np.arange(4), 5)
    drawn = {
        (int(image), int(sentence))
        for epoch in range(60)
        for images, sentences in neighbourhood(owners, 2, 1, epoch)
        for image, sentence in zip(images[2:], sentences[2:], strict=True)
    }
    assert drawn == {(int(owner), sentence) for sentence, owner in enumerate(owners)}


@given(OWNERS, st.integers(2, 20), st.integers(0, 5))
def test_images_come_once_with_all_their_sentences(owners, batch: int, seed: int) -> None:
    batches = list(SAMPLERS["images"](owners, batch, seed, 1))
    most = np.bincount(owners).max()
    seen: list[int] = []
    for images, sentences in batches:
        np.testing.assert_array_equal(images, owners[sentences])
        assert len(set(images)) > 1
        assert len(sentences) < batch + 2 * most  # an image alone joins another batch
        for image in set(images):
            assert set(np.flatnonzero(owners == image)) <= set(sentences)
        seen += sentences.tolist()
    assert len(set(seen)) == len(seen)
    assert len(seen) == (len(owners) if len(set(owners)) > 1 else 0)


def test_the_order_of_images_differs_from_epoch_to_epoch() -> None:
    owners = np.repeat(np.arange(100), 5)
    first, again, second = (
        [set(images) for images, _ in SAMPLERS["images"](owners, 50, 1, epoch)] for epoch in (1, 1, 2)
    )
    assert first == again != second
    assert len(first) == 10
