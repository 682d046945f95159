import json

import numpy as np
import pytest
from sklearn.metrics import top_k_accuracy_score

from seesay.errors import SeesayError
from seesay.metrics import retrieval_metrics
from seesay.protocols.base import Options
from seesay.protocols.evaluate import measure
from seesay.protocols.standard import Standard
from seesay.protocols.subject import Subject
from tests.protocols.drawn import WORDS, Pairs, measured, run_subject, subject_of


def noisy(n, per_image, seed=0, dtype=np.float16):
    rng = np.random.default_rng(seed)
    owners = np.repeat(np.arange(n), per_image)
    scores = rng.integers(0, 50, (n, len(owners))).astype(dtype)
    scores[owners, np.arange(len(owners))] += 35
    return scores, owners


def test_the_json_has_the_keys_that_rows_have():
    scores, owners = noisy(30, 5)
    result = measured(scores, owners, split="val")
    counts = [result[key] for key in ("protocol", "split", "images", "sentences")]
    assert counts == ["standard", "val", 30, 150]
    beyond = {"S Mean r", "I Mean r", "rsum"}  # which no table of the field shows
    found = {name: each for name, each in retrieval_metrics(scores, owners).items() if name not in beyond}
    assert set(result) == {"protocol", "split", "images", "sentences", *found}
    assert {name: result[name] for name in found} == pytest.approx(found, abs=1e-3)
    assert json.loads(json.dumps(result)) == result


def test_a_perfect_scorer_and_a_constant_one():
    owners = np.repeat(np.arange(40), 3)
    perfect = measured((owners == np.arange(40)[:, None]).astype(np.float32), owners)
    assert perfect["mR"] == 100
    assert perfect["S Med r"] == 1
    assert measured(np.ones((40, 120), np.float32), owners)["mR"] == 0


def test_recalls_are_the_accuracies_of_scikit_learn():
    rng = np.random.default_rng(2)
    owners = rng.permutation(np.repeat(np.arange(40), 3))
    right = np.arange(40)[:, None] == owners
    scores = rng.normal(size=right.shape) + 1.5 * right
    result = measured(scores, owners)
    # Of an image's own sentences the best one counts: it stands for them, in front of all the others.
    best, others = scores.max(axis=1, where=right, initial=-np.inf), scores[~right].reshape(40, -1)
    by_image = np.column_stack([best, others]), np.zeros(40, int)
    for way, (values, answers) in {"S": by_image, "I": (scores.T, owners)}.items():
        for k in (1, 5, 10):
            rate = top_k_accuracy_score(answers, values, k=k, labels=np.arange(values.shape[1]))
            assert result[f"{way} R@{k}"] == pytest.approx(100 * rate, abs=1e-3)


def test_one_k_is_the_mean_of_five_sequential_folds():
    scores, owners = noisy(5000, 1)
    result = measured(scores, owners, "coco-1k")
    folds = [measured(scores[s : s + 1000, s : s + 1000], owners[:1000]) for s in range(0, 5000, 1000)]
    for way in "SI":
        for name in ("R@1", "R@5", "R@10", "Med r"):
            expected = np.mean([fold[f"{way} {name}"] for fold in folds])
            assert result[f"{way} {name}"] == pytest.approx(expected, abs=0.001)
    assert (result["images"], result["sentences"]) == (5000, 5000)
    assert measured(scores, owners, "coco-5k")["mR"] < result["mR"]


def test_folds_follow_the_mapping_when_sentences_are_shuffled():
    rng = np.random.default_rng(5)
    images = rng.integers(-3, 4, (5000, 6)).astype(np.float32)
    owners = np.sort(np.concatenate([np.arange(5000), rng.integers(0, 5000, 700)]))
    sentences = images[owners] + rng.integers(-1, 2, (5700, 6)).astype(np.float32)
    shuffled = rng.permutation(5700)
    straight = measured((images, sentences), owners, "coco-1k")
    assert measured((images, sentences[shuffled]), owners[shuffled], "coco-1k") == straight
    assert 0 < straight["mR"] < 100


def test_a_pair_matcher_scores_the_pairs_of_each_fold_alone(tmp_path):
    draw = np.random.default_rng(7)
    texts, owners = [" ".join(draw.choice(WORDS, 3)) for _ in range(90)], draw.permutation(90) % 30
    subject = run_subject(Pairs(), texts, owners, 30, tmp_path)
    protocol = Standard()
    protocol.fold = 10
    found = protocol.measure(subject, Options())
    assert subject.run.matcher.pairs == 3 * 10 * 30
    whole = Subject("drawn", "test", subject.corpus, subject.scores)
    assert found.to_dict() == protocol.measure(whole, Options()).to_dict()


def test_embeddings_measure_as_their_score_matrix():
    rng = np.random.default_rng(6)
    images = rng.integers(-2, 3, (60, 5)).astype(np.float32)
    owners = rng.integers(0, 60, 200)
    sentences = images[owners] + rng.integers(-1, 2, (200, 5)).astype(np.float32)
    assert measured((images, sentences), owners) == measured(images @ sentences.T, owners)


def test_images_without_sentences_are_candidates_and_counted():
    result = measured(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 5.0]]), [0, 2])
    assert result["notes"] == ["1 images without sentences are candidates only."]
    assert result["S R@1"] == 100
    assert result["I R@1"] == 50


def test_intervals_are_by_metric_and_hold_it():
    draw = np.random.default_rng(5)
    owners = np.repeat(np.arange(60), 3)
    scores = draw.normal(size=(60, 180)) + 2 * (owners == np.arange(60)[:, None])
    plain, result = measured(scores, owners), measured(scores, owners, resamples=200)
    intervals = result.pop("intervals")
    assert result.pop("resamples") == 200
    assert plain == result
    for name in (f"{way} {metric}" for way in "SI" for metric in ("R@1", "R@5", "R@10", "Med r")):
        low, high = intervals[name]
        assert low <= result[name] <= high < low + 40
    low, high = intervals["mR"]
    assert low < result["mR"] < high


def test_the_number_of_images_must_be_the_protocols():
    for protocol in ("coco-1k", "coco-5k"):
        with pytest.raises(SeesayError, match="split 'test' has 30 images"):
            measured(*noisy(30, 5), protocol)
    with pytest.raises(SeesayError, match="No protocol 'coco-2k'; did you mean 'coco-"):
        measured(*noisy(30, 5), "coco-2k")


def test_only_shared_sentences_credits_a_perfect_matcher_of_products_with_equal_names() -> None:
    texts = ["red mug", "Red  mug", "blue mug", "red mug", "tea pot"]
    numbers = np.array([0, 0, 1, 0, 2])
    perfect = (numbers[:, None] == numbers).astype(np.float32)  # ten of five products: it reads texts alone
    subject = subject_of(perfect, range(5), texts)
    plain, shared = measure(subject, "standard"), measure(subject, "shared-sentences")
    assert (plain.metrics["S R@1"], plain.metrics["I R@1"]) == (40.0, 40.0)
    assert any("R@1 is at most 40.0 for sentences and 60.0 for images" in note for note in plain.notes)
    assert shared.metrics["mR"] == 100.0
    assert shared.about["shared sentences"] == 3
    assert "3 sentences" in shared.notes[0]


def test_without_shared_sentences_both_protocols_agree_and_print_no_note() -> None:
    scores = np.random.default_rng(3).normal(size=(6, 6))
    subject = subject_of(scores, range(6), [f"number {i}" for i in range(6)])
    plain, shared = measure(subject, "standard"), measure(subject, "shared-sentences")
    assert plain.metrics == shared.metrics
    assert plain.notes == []
