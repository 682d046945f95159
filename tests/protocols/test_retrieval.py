import json

import numpy as np
import pytest
import torch
from torchmetrics.retrieval import RetrievalHitRate

from seesay.errors import SeesayError
from seesay.protocols.retrieval import PROTOCOLS, evaluate_embeddings, evaluate_scores


def noisy(n, per_image, seed=0, dtype=np.float16):
    rng = np.random.default_rng(seed)
    owners = np.repeat(np.arange(n), per_image)
    scores = rng.integers(0, 50, (n, len(owners))).astype(dtype)
    scores[owners, np.arange(len(owners))] += 35
    return scores, owners


def test_the_object_has_the_keys_that_the_command_promises():
    result = evaluate_scores(*noisy(30, 5), split="val")
    assert list(result) == [
        "protocol", "split", "images", "sentences", "sentence_retrieval", "image_retrieval", "mR",
    ]  # fmt: skip
    assert (
        list(result["sentence_retrieval"])
        == list(result["image_retrieval"])
        == ["R@1", "R@5", "R@10", "Med r"]
    )
    assert (result["protocol"], result["split"], result["images"], result["sentences"]) == (
        "standard",
        "val",
        30,
        150,
    )
    recalls = [result[way][f"R@{k}"] for way in ("sentence_retrieval", "image_retrieval") for k in (1, 5, 10)]
    assert result["mR"] == pytest.approx(np.mean(recalls), abs=0.001)
    assert json.loads(json.dumps(result)) == result


def test_a_perfect_scorer_and_a_constant_one():
    owners = np.repeat(np.arange(40), 3)
    perfect = evaluate_scores((owners == np.arange(40)[:, None]).astype(np.float32), owners)
    assert perfect["mR"] == 100
    assert perfect["sentence_retrieval"]["Med r"] == 1
    assert evaluate_scores(np.ones((40, 120), np.float32), owners)["mR"] == 0


def test_recalls_are_the_hit_rates_of_torchmetrics():
    rng = np.random.default_rng(2)
    owners = rng.permutation(np.repeat(np.arange(40), 3))
    right = np.arange(40)[:, None] == owners
    scores = torch.from_numpy(rng.normal(size=right.shape) + 1.5 * right)
    result = evaluate_scores(scores.numpy(), owners)
    for way, asked, target in (
        ("sentence_retrieval", scores, torch.from_numpy(right)),
        ("image_retrieval", scores.T, torch.from_numpy(right).T),
    ):
        queries = torch.arange(len(asked))[:, None].expand(asked.shape)
        for k in (1, 5, 10):
            rate = RetrievalHitRate(top_k=k)(asked.flatten(), target.flatten(), queries.flatten())
            assert result[way][f"R@{k}"] == pytest.approx(100 * float(rate), abs=1e-3)


def test_one_k_is_the_mean_of_five_sequential_folds():
    scores, owners = noisy(5000, 1)
    result = evaluate_scores(scores, owners, "coco-1k")
    folds = [evaluate_scores(scores[s : s + 1000, s : s + 1000], owners[:1000]) for s in range(0, 5000, 1000)]
    for way in ("sentence_retrieval", "image_retrieval"):
        for name in ("R@1", "R@5", "R@10", "Med r"):
            assert result[way][name] == pytest.approx(np.mean([fold[way][name] for fold in folds]), abs=0.001)
    assert (result["images"], result["sentences"]) == (5000, 5000)
    assert evaluate_scores(scores, owners, "coco-5k")["mR"] < result["mR"]


def test_folds_follow_the_mapping_when_sentences_are_shuffled():
    rng = np.random.default_rng(5)
    images = rng.integers(-3, 4, (5000, 6)).astype(np.float32)
    owners = np.sort(np.concatenate([np.arange(5000), rng.integers(0, 5000, 700)]))
    sentences = images[owners] + rng.integers(-1, 2, (5700, 6)).astype(np.float32)
    shuffled = rng.permutation(5700)
    straight = evaluate_embeddings(images, sentences, owners, "coco-1k")
    assert evaluate_embeddings(images, sentences[shuffled], owners[shuffled], "coco-1k") == straight
    assert 0 < straight["mR"] < 100


def test_embeddings_measure_as_their_score_matrix():
    rng = np.random.default_rng(6)
    images = rng.integers(-2, 3, (60, 5)).astype(np.float32)
    owners = rng.integers(0, 60, 200)
    sentences = images[owners] + rng.integers(-1, 2, (200, 5)).astype(np.float32)
    assert evaluate_embeddings(images, sentences, owners) == evaluate_scores(images @ sentences.T, owners)


def test_images_without_sentences_are_candidates_and_counted():
    result = evaluate_scores(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 5.0]]), [0, 2])
    assert result["images_without_sentences"] == 1
    assert result["sentence_retrieval"]["R@1"] == 100
    assert result["image_retrieval"]["R@1"] == 50


def test_what_cannot_be_measured_is_said():
    scores, owners = noisy(30, 5)
    with pytest.raises(SeesayError, match="coco-1k, coco-5k"):
        evaluate_scores(scores, owners, "coco-2k")
    for protocol in ("coco-1k", "coco-5k"):
        with pytest.raises(SeesayError, match="5000 images; split 'test' has 30"):
            evaluate_scores(scores, owners, protocol)
    with pytest.raises(SeesayError, match="shape"):
        evaluate_scores(scores[0], owners)
    assert all(protocol.summary for protocol in PROTOCOLS.values())
