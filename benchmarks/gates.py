"""How much a gate of GVSE gains over one weight: its two metrics weighed in several ways, measured on test.

A gate learns which queries contain a word that is rare in training. The trained gate is compared with a
weight of one half, which is the sum; with one weight for all queries of a direction; and with two weights,
one for queries with a rare word and one for the others, as of a gate that knows this label of every query.
Weights are chosen by recall on val, and then on test itself, which shows the most that they could gain.
Another gate learns its weight by the ranking loss (eq. 2) from one half of val, which was only used to choose
the epochs of the members, and keeps the epoch with the best recall on the other half. An oracle chooses for
each query of test by its own recall: between the two metrics, and among all weights. Missing runs are trained
first.

    python -m benchmarks.gates [--row gvse-gated-plus] [--seeds 1,2,3] [--runs runs] [--data CORPUS]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._harness import arguments, report
from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.losses.base import negatives
from seesay.losses.margin import SoftMarginLoss, violations
from seesay.matchers.gvse import GVSE, Gate, GVSESettings
from seesay.metrics.ranks import ranks
from seesay.metrics.recall import TOP
from seesay.recipes.table import load_table
from seesay.runs.inputs import Inputs, run_inputs
from seesay.runs.run import Run
from seesay.training.gates import labels_by, member_scores
from seesay.training.loop import Steps, copied
from seesay.training.table import TableRuns
from tools.orders import Order

WEIGHTS = np.linspace(0, 1, 41)  # of the metric for uncommon content
HALF = len(WEIGHTS) // 2
ONE = "one for each direction"
TWO = "two, for queries with a rare word and others"
BETTER = "the better of the two metrics, for each query"
BEST = "the best, for each query"
Floats = NDArray[np.floating]
Mask = NDArray[np.bool_]


class Split(NamedTuple):
    """A split, embedded by the two members of a fusion."""

    inputs: Inputs
    vectors: tuple[Floats, Floats]  # of images (n, d) and of sentences (m, d), both members joined
    uncommon: Floats  # the metric m₀ of eq. 4, (n, m)
    common: Floats  # m₁
    weights: tuple[Floats, Floats]  # t of the trained gates, (n,) and (m,)

    def recall(self, t: Any, side: int) -> Floats:
        """Return the recall of each query of a side with the weight t: a number, or (n,) or (m,)."""
        t = _across(t, side) if np.ndim(t) else t
        found = ranks(t * self.uncommon + (1 - t) * self.common, self.inputs.image_of_sentence)
        own = (found.sentence, found.image)[side]
        return np.asarray(np.mean([own < k for k in TOP], axis=0))


class Queries(NamedTuple):
    """Queries of one direction; a query's recall is the share of K = 1, 5, 10 with a match in the first K."""

    by_weight: Floats  # recall with each of WEIGHTS, (w, n)
    gated: Floats  # with the trained gate's weight, (n,)
    ranked: Floats  # with the weight of a gate trained by ranking, (n,)
    rare: Mask  # which contain a word as rare in training as the gate's label requires, (n,)
    unseen: Mask  # which contain a word that is not in training, (n,)

    def best(self, chosen: Mask | None = None) -> int:
        """The number of the best weight for some queries, or for all; one half if there are none."""
        some = self.by_weight if chosen is None else self.by_weight[:, chosen]
        return int(some.mean(axis=1).argmax()) if some.size else HALF


_AT_ONCE = 512  # images or sentences


def main() -> int:
    parser = arguments(__doc__ or "", data="a captioned corpus")
    parser.add_argument("--row", default="gvse-gated-plus", help="a fusion with gates, of the table flickr8k")
    parser.add_argument("--seeds", default="1,2,3", help="of its runs, two at least")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder of the runs")
    options = parser.parse_args()
    corpus, definition = read_corpus(options.data), load_table("flickr8k").only([options.row])
    row = definition.rows[0]
    settings = definition.recipe(row.recipes[0], corpus.name, row.changes, 1).matcher
    if not isinstance(settings, GVSESettings) or settings.gate is None:
        parser.error(f"--row: '{options.row}' is not a fusion with gates, such as gvse-gated-plus")
    seeds = list(map(int, options.seeds.split(",")))
    if len(seeds) < 2:
        parser.error("--seeds: an interval needs two, such as --seeds 1,2")
    table = TableRuns(definition, corpus, options.runs)
    runs = [Run.load(str(table.run_of(row, seed))) for seed in seeds]
    found = [figures_by_weight(run, corpus, settings.gate.uncommon) for run in runs]
    rows: list[dict[str, Any]] = []
    for weight, chosen_on in found[0]:
        figures = np.array([each[weight, chosen_on] for each in found])
        differences = figures[:, 0] - [each[ONE, "val"][0] for each in found]
        order = Order.from_differences(ONE, weight, differences.tolist())
        of_all, of_rare, of_unseen = figures.mean(axis=0)
        measured = {"mR": of_all, "mR, rare word": of_rare, "mR, unseen word": of_unseen}
        measured |= {f"above {ONE}": order.mean, "95 %, ±": order.interval[1] - order.mean}
        rows.append({"row": row.name, "weight": weight, "chosen on": chosen_on, "runs": len(runs)} | measured)
    report("gates", rows, options)
    return 0


def figures_by_weight(run: Run, corpus: Corpus, uncommon: int) -> dict[tuple[str, str], list[float]]:
    """Return the mR on test by the weight and the split that it was chosen on.

    The three figures are for all queries, those with a rare word, and those with a word not in training.
    """
    val, test = (split_of(run, corpus, split) for split in ("val", "test"))
    gates = [gate_by_ranking(run, val, side) for side in (0, 1)]
    texts = corpus.split("train").texts()
    asked, chosen_by = (queries(split, texts, gates, uncommon) for split in (test, val))
    recalls: dict[tuple[str, str], list[Floats]] = {}
    for of_test, of_val in zip(asked, chosen_by, strict=True):
        weighed = {
            ("1/2, the sum", "–"): of_test.by_weight[HALF],
            (ONE, "val"): of_test.by_weight[of_val.best()],
            (TWO, "val"): _by_label(of_test, of_val),
            (ONE, "test"): of_test.by_weight[of_test.best()],
            (TWO, "test"): _by_label(of_test, of_test),
            ("the trained gate's", "val"): of_test.gated,
            ("that of a gate trained by eq. 2", "val"): of_test.ranked,
            (BETTER, "test"): of_test.by_weight[[0, -1]].max(axis=0),
            (BEST, "test"): of_test.by_weight.max(axis=0),
        }
        for weight, recall in weighed.items():
            recalls.setdefault(weight, []).append(recall)
    subsets = [[np.ones_like(q.rare) for q in asked], [q.rare for q in asked], [q.unseen for q in asked]]
    return {weight: [_mean(recall, subset) for subset in subsets] for weight, recall in recalls.items()}


def split_of(run: Run, corpus: Corpus, split: str) -> Split:
    """Embed a split with a fusion."""
    matcher = run.matcher
    assert isinstance(matcher, GVSE)
    inputs = run_inputs(run, corpus, split)
    vectors = run.embed_features(inputs.features), run.embed_prepared(inputs.sentences)
    weights = []
    for gate, mine in zip((matcher.image_gate, matcher.sentence_gate), vectors, strict=True):
        assert gate is not None
        with torch.inference_mode():  # t of eq. 4
            t = torch.sigmoid(gate(torch.from_numpy(np.asarray(mine, np.float32)).to(run.device)))
        weights.append(t.double().cpu().numpy())
    return Split(inputs, vectors, *member_scores(*vectors, matcher.dims[0]), (weights[0], weights[1]))


def queries(split: Split, texts: Sequence[str], gates: Sequence[Gate], uncommon: int) -> list[Queries]:
    """Return a split's images and its sentences as queries for each other; `texts` are those of train."""
    owners = split.inputs.image_of_sentence
    rare, unseen = labels_by(split.inputs, texts, uncommon), labels_by(split.inputs, texts, 0)
    answered = np.bincount(owners, minlength=len(split.uncommon)) > 0, np.ones(len(owners), bool)
    both = list[Queries]()
    for side, some in enumerate(answered):
        by_weight = np.stack([split.recall(weight, side) for weight in WEIGHTS])
        with torch.inference_mode():
            learned = torch.sigmoid(gates[side](torch.from_numpy(split.vectors[side]))).numpy()
        gated, ranked = (split.recall(t, side) for t in (split.weights[side], learned))
        both.append(
            Queries(by_weight[:, some], gated[some], ranked[some], rare[side][some], unseen[side][some])
        )
    return both


def gate_by_ranking(run: Run, val: Split, side: int) -> Gate:
    """Train the gate of a side's queries by eq. 2 on half of val's images.

    The epoch with the best recall on the other half is kept. Optimizer, batch size and epochs are those of
    the run's gates.
    """
    matcher, recipe = run.matcher, run.recipe
    assert isinstance(matcher, GVSE)
    assert isinstance(recipe.matcher, GVSESettings)
    assert recipe.matcher.gate is not None
    loss = recipe.loss.build()
    assert isinstance(loss, SoftMarginLoss)
    torch.manual_seed(recipe.seed)
    gate = Gate(matcher.dims, recipe.matcher.gate.hidden)
    owners = torch.from_numpy(val.inputs.image_of_sentence)
    vectors, uncommon, common = map(torch.from_numpy, (val.vectors[side], val.uncommon, val.common))
    half = torch.randperm(len(uncommon)) < len(uncommon) // 2  # of the images
    pairs, others = torch.where(half[owners])[0], ~half[owners if side else slice(None)]

    def recall() -> float:
        with torch.inference_mode():
            t = torch.sigmoid(gate(vectors)).numpy()
        return float(val.recall(t, side)[others.numpy()].mean())

    steps, kept, best = Steps(recipe, gate), copied(gate.state_dict()), recall()
    epochs = recipe.schedule.epochs_of(-(-len(pairs) // recipe.batch_size))
    for epoch in range(epochs):
        for batch in torch.split(pairs[torch.randperm(len(pairs))], recipe.batch_size):
            images = owners[batch]
            t = _across(torch.sigmoid(gate(vectors[batch if side else images])), side)
            of_uncommon, of_common = (m[images][:, batch] for m in (uncommon, common))
            found = violations(t * of_uncommon + (1 - t) * of_common, negatives(images), loss.margin)[side]
            steps.take(found.amax(dim=1).mean(), epoch / epochs)
        if (now := recall()) > best:
            kept, best = copied(gate.state_dict()), now
    gate.load_state_dict(kept)
    return gate


def _across(t: Any, side: int) -> Any:
    """Return the weights of images (n, 1) or of sentences (1, m), for scores (n, m)."""
    return t[None, :] if side else t[:, None]


def _by_label(test: Queries, chosen_by: Queries) -> Floats:
    """The recall of each query with the weight that is best for queries with its label."""
    if_rare, if_not = chosen_by.best(chosen_by.rare), chosen_by.best(~chosen_by.rare)
    return np.asarray(np.where(test.rare, test.by_weight[if_rare], test.by_weight[if_not]))


def _mean(recall: list[Floats], subset: list[Mask]) -> float:
    """The mean over both directions, in percent."""
    return float(100 * np.mean([each[some].mean() for each, some in zip(recall, subset, strict=True)]))


if __name__ == "__main__":
    sys.exit(main())
