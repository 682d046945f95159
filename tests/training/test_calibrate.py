"""Calibration of a gate: against every choice tried by hand, and that it keeps the order of its queries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.matchers.gvse import Gate
from seesay.training.calibrate import SCALES, SHIFTS, calibrate


def recall_by_hand(scores: np.ndarray, owners: np.ndarray, side: str) -> float:
    """The mean of R@1, R@5 and R@10, query by query."""
    found = []
    for query in range(len(scores) if side == "image" else len(owners)):
        line = scores[query] if side == "image" else scores[:, query]
        right = owners == query if side == "image" else np.arange(len(scores)) == owners[query]
        if right.any():
            found.append((line[~right] >= line[right].max()).sum())
    return float(np.mean([100 * np.mean(np.array(found) < k) for k in (1, 5, 10)]))


@given(st.integers(0, 50), st.sampled_from(["image", "sentence"]))
@settings(max_examples=12, deadline=None)
def test_the_choice_is_the_best_of_all(seed: int, side: str) -> None:
    draw = np.random.default_rng(seed)
    owners = np.repeat(np.arange(12), 2)
    truth = (owners == np.arange(12)[:, None]).astype(np.float32)
    uncommon, common = (truth + draw.normal(0, 1, truth.shape).astype(np.float32) for _ in range(2))
    logits = draw.normal(0, 2, 12 if side == "image" else 24).astype(np.float32)
    best = 0.0
    for scale in SCALES:
        for shift in SHIFTS:
            t = 1 / (1 + np.exp(-(scale * logits + shift)))
            t = t[:, None] if side == "image" else t[None]
            best = max(best, recall_by_hand(t * uncommon + (1 - t) * common, owners, side))
    told = calibrate(Gate([2, 2], 4), logits, (uncommon, common), owners, side)
    assert told["recall"] == pytest.approx(best, abs=1e-3)


def test_the_gate_says_the_scaled_logit_then() -> None:
    torch.manual_seed(0)
    gate, vectors = Gate([3, 3], 8), torch.randn(40, 6)
    torch.nn.init.normal_(gate.score.weight)
    with torch.inference_mode():
        before = gate(vectors)
    owners = np.arange(40)
    draw = np.random.default_rng(1)
    good, bad = np.eye(40, dtype=np.float32), draw.normal(0, 1, (40, 40)).astype(np.float32)
    told = calibrate(gate, before.numpy(), (good, bad), owners, "sentence")
    assert told["shift"] == max(SHIFTS)  # the uncommon metric is the better one, whoever asks
    with torch.inference_mode():
        np.testing.assert_allclose(gate(vectors), told["scale"] * before + told["shift"], atol=1e-5)
