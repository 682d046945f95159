"""GVSE's gates, which predict from a query's two vectors whether it has words that are rare in training.

A train sentence is labelled by the counts of its words in the other folds, so that a word does not make
itself common; val sentences are labelled by the train split. Both labels have the same total weight in the
loss, so a gate that learns nothing has t = 1/2, the sum of the metrics. Training starts there, because the
last layer starts at zero.

The epoch with the lowest loss on val is kept, and its gate is then rescaled: a gate learns to separate
queries, and its certainty does not say how much better the metric for uncommon content is. Its logit f
therefore becomes a·f + b, with the a and b that give the highest recall on val. a is positive, which keeps
the order of the queries by t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from seesay.arrays import Mask, Vectors
from seesay.errors import SeesayError
from seesay.matchers.gvse import GVSE, Gate, GateSettings
from seesay.metrics.precision import auc
from seesay.metrics.ranks import ranks
from seesay.metrics.recall import recall_at_k
from seesay.progress import progress
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import Inputs
from seesay.runs.run import Run
from seesay.runs.summary import GateSummary
from seesay.text.vocabulary import rarest_words, word_counts
from seesay.training.loop import OnEpochEnd, Steps, copied

SCALES = (1.0, 0.5, 0.25, 0.125)
SHIFTS = (0.0, -0.5, 0.5, -1.0, 1.0)


@dataclass(frozen=True)
class Queries:
    """Vectors of queries by both members, side by side, (n, d), and which hold uncommon content, (n,)."""

    vectors: Tensor
    labels: Tensor


def train_gates(run: Run, train: Inputs, val: Inputs, on_epoch_end: OnEpochEnd) -> dict[str, GateSummary]:
    """Train the gates of a fusion in place, on its members' vectors of the train split.

    `on_epoch_end` gets the losses of each gate's epochs, `image gate/loss` and `image gate/val loss`; the
    epochs of the second gate, `sentence gate/…`, are counted on.

    Returns:
        The outcome for `image` and `sentence`, or why there was nothing to learn. Epoch 0 is the untrained
        gate, t = 1/2.

    Raises:
        SeesayError: the loss is not finite.
    """
    matcher = run.matcher
    assert isinstance(matcher, GVSE)
    assert matcher.gate is not None
    of_train = fold_labels(train, matcher.gate, run.recipe.seed)
    of_val = labels_by(val, train.corpus.texts(), matcher.gate.uncommon)
    seen = [(run.embed_features(each.features), run.embed_prepared(each.sentences)) for each in (train, val)]
    metrics = member_scores(*seen[1], matcher.dims[0])
    learned: dict[str, GateSummary] = {}
    epochs = count(1)
    for side, name in enumerate(("image", "sentence")):
        labels = {"train": of_train[side], "val": of_val[side]}
        if same := next((split for split, mine in labels.items() if mine.all() or not mine.any()), None):
            every = "every" if labels[same].all() else "no"
            learned[name] = GateSummary(epoch=0, why=f"{every} {same} {name} holds uncommon words")
            continue
        mine, chosen_by = (
            Queries(torch.from_numpy(vectors[side]), torch.from_numpy(each))
            for vectors, each in zip(seen, labels.values(), strict=True)
        )

        def told(_: int, losses: Mapping[str, float], name: str = name) -> None:
            on_epoch_end(next(epochs), {f"{name} gate/{key}": value for key, value in losses.items()})

        gate = getattr(matcher, f"{name}_gate")
        best = train_gate(gate, mine, chosen_by, run.recipe, run.device, told)
        with torch.inference_mode():
            logits = gate(chosen_by.vectors.to(run.device)).float().cpu().numpy()
        scaled = rescale(gate, logits, metrics, val.image_of_sentence, name)
        learned[name] = best.model_copy(update=scaled)
    return learned


def fold_labels(inputs: Inputs, settings: GateSettings, seed: int) -> tuple[Mask, Mask]:
    """Label the train split's images (n,) and sentences (m,) that hold a word uncommon in the other folds.

    Folds are of images, so that an image's sentences, which share words, are in one.
    """
    texts, owners = inputs.corpus.texts(), inputs.image_of_sentence
    fold = np.random.default_rng(seed).permutation(len(inputs.features)) % settings.folds
    counts = word_counts(texts)
    labels = np.zeros(len(texts), bool)
    for number in range(settings.folds):
        mine = np.flatnonzero(fold[owners] == number)
        own = [texts[i] for i in mine.tolist()]
        labels[mine] = rarest_words(own, counts - word_counts(own)) <= settings.uncommon
    return _of_images(labels, inputs), labels


def labels_by(inputs: Inputs, train: Sequence[str], uncommon: int) -> tuple[Mask, Mask]:
    """Label the images (n,) and sentences (m,) with a word seen at most `uncommon` times in training."""
    labels = rarest_words(inputs.corpus.texts(), word_counts(train)) <= uncommon
    return _of_images(labels, inputs), labels


def _of_images(labels: Mask, inputs: Inputs) -> Mask:
    """Return which images have a labelled sentence, (n,)."""
    return np.isin(np.arange(len(inputs.features)), inputs.image_of_sentence[labels])


def train_gate(
    gate: Gate, train: Queries, val: Queries, recipe: Recipe, device: str, on_epoch_end: OnEpochEnd
) -> GateSummary:
    """Train one gate by the recipe's optimizer, epochs and batch size; keep the epoch of lowest val loss."""
    torch.manual_seed(recipe.seed)
    gate.reset()
    gate.to(device)
    (least, area), kept, state = _measured(0, gate, val, device), 0, copied(gate.state_dict())
    batches = range(0, len(train.labels), recipe.batch_size)
    epochs = recipe.schedule.epochs_of(len(batches))
    steps = Steps(recipe, gate)
    with progress("Gate", epochs, "epochs") as advance:
        for epoch in range(1, epochs + 1):
            order, total = torch.randperm(len(train.labels)), 0.0
            for start in batches:
                chosen = order[start : start + recipe.batch_size]
                vectors, labels = train.vectors[chosen].to(device), train.labels[chosen].to(device)
                loss = balanced_loss(gate(vectors), labels, train.labels)
                total += loss.item() / len(batches)
                steps.take(loss, (epoch - 1) / epochs)
            of_val, found = _measured(epoch, gate, val, device)
            if of_val < least:
                least, area, kept, state = of_val, found, epoch, copied(gate.state_dict())
            on_epoch_end(epoch, {"loss": total, "val loss": of_val})
            advance(1)
    gate.load_state_dict(state)
    return GateSummary(epoch=kept, loss=round(least, 4), auc=area)


def balanced_loss(logits: Tensor, labels: Tensor, among: Tensor) -> Tensor:
    """Return the cross-entropy of logits (n,) and labels (n,), weighted to balance the labels `among`."""
    true = among.float().mean().clamp(1e-6, 1 - 1e-6).to(logits.device)
    weights = torch.where(labels, 0.5 / true, 0.5 / (1 - true))
    return functional.binary_cross_entropy_with_logits(logits, labels.float(), weights)


@torch.inference_mode()
def _measured(epoch: int, gate: Gate, val: Queries, device: str) -> tuple[float, float | None]:
    """Return the loss and the AUC of a gate on val after an epoch."""
    logits = gate(val.vectors.to(device)).float().cpu()
    loss = float(balanced_loss(logits, val.labels, val.labels))
    if not np.isfinite(loss):
        raise SeesayError(f"A gate's loss is {loss} in epoch {epoch}; lower optimizer.lr.")
    area = auc(logits.numpy(), val.labels.numpy())
    return loss, None if area is None else round(area, 4)


def member_scores(images: Vectors, sentences: Vectors, first: int) -> tuple[Vectors, Vectors]:
    """Compute the scores of each member, m₀ and m₁ of eq. 4, (n, m) each.

    The first `first` columns of the vectors are the first member's.
    """
    return images[:, :first] @ sentences[:, :first].T, images[:, first:] @ sentences[:, first:].T


def rescale(
    gate: Gate, logits: Vectors, metrics: tuple[Vectors, Vectors], owners: NDArray[np.int64], side: str
) -> dict[str, float]:
    """Scale and shift the gate of a side in place by its recall on val; ties go to the first values.

    `logits` are f of val's queries, (n,) images or (m,) sentences, `metrics` m₀ and m₁ of eq. 4, (n, m) each,
    and `owners` (m,) the row of each sentence's image.

    Returns:
        `scale`, `shift` and `recall`: the mean of R@1, R@5 and R@10 with them, in percent.
    """

    def recall(change: tuple[float, float]) -> float:
        t = 1 / (1 + np.exp(-(change[0] * logits + change[1])))
        t = t[:, None] if side == "image" else t[None, :]
        found = ranks(t * metrics[0] + (1 - t) * metrics[1], owners)
        queries = found.sentence if side == "image" else found.image
        return fmean(recall_at_k(queries, k) for k in (1, 5, 10))

    scale, shift = best = max(product(SCALES, SHIFTS), key=recall)
    with torch.no_grad():
        gate.score.weight.mul_(scale)
        gate.score.bias.mul_(scale).add_(shift)
    return {"scale": scale, "shift": shift, "recall": round(recall(best), 3)}
