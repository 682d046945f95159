"""How much a gate of GVSE gains over one weight: its two metrics weighed in several ways, measured on test.

A gate learns which queries hold a word that is rare in training. Beside the trained gate stand one half,
which is the sum; one weight for all queries of a direction; and two, for queries with a rare word and
the others, as a gate would have them that knew this label of every query. Weights are chosen by recall
on val, and then on test itself, which says how much they could gain at most. An oracle chooses for each
query of test by its own answer: between the two metrics, and among all weights. Runs that are missing are
trained first.

    python -m benchmarks.gates [--row gvse-gated-plus] [--seeds 1,2,3] [--runs runs] [--data CORPUS]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import arguments, report
from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.matchers.gvse import GVSE, GVSESettings
from seesay.metrics.ranks import ranks
from seesay.metrics.recall import TOP
from seesay.recipes.table import load_table
from seesay.runs.inputs import split_inputs
from seesay.runs.predictions import gate_values
from seesay.runs.run import Run
from seesay.training.gates import labels_by, member_scores
from seesay.training.table import TableRuns
from tools.orders import Order

WEIGHTS = np.linspace(0, 1, 41)  # of the metric for uncommon content
HALF = len(WEIGHTS) // 2
ONE = "one for all queries"
TWO = "two, for queries with a rare word and others"
BETTER = "the better of the two metrics, for each query"
BEST = "the best, for each query"
Floats = NDArray[np.floating]
Mask = NDArray[np.bool_]


class Queries(NamedTuple):
    """Queries of one direction; a query's recall is the share of K = 1, 5, 10 at which it is answered."""

    by_weight: Floats  # recall with each of WEIGHTS, (w, n)
    gated: Floats  # with the trained gate's weight, (n,)
    rare: Mask  # which hold a word that is as rare in training as the gate's label says, (n,)
    unseen: Mask  # which hold a word that training has not seen, (n,)

    def best(self, chosen: Mask | None = None) -> int:
        """The number of the best weight for some queries, or for all; one half if there are none."""
        some = self.by_weight if chosen is None else self.by_weight[:, chosen]
        return int(some.mean(axis=1).argmax()) if some.size else HALF


def main() -> int:
    parser = arguments(__doc__ or "", data="a captioned corpus")
    parser.add_argument("--row", default="gvse-gated-plus", help="a fusion with gates, of the table flickr8k")
    parser.add_argument("--seeds", default="1,2,3", help="of its runs, two at least")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder of the runs")
    options = parser.parse_args()
    corpus, definition = read_corpus(options.data), load_table("flickr8k").only([options.row])
    settings = definition.recipe(options.row, corpus.name, (), 1).matcher
    if not isinstance(settings, GVSESettings) or settings.gate is None:
        parser.error(f"--row: '{options.row}' is not a fusion with gates, such as gvse-gated-plus")
    seeds = list(map(int, options.seeds.split(",")))
    if len(seeds) < 2:
        parser.error("--seeds: an interval needs two, such as --seeds 1,2")
    table = TableRuns(definition, corpus, options.runs)
    runs = [Run.load(str(table.run(options.row, seed))) for seed in seeds]
    found = [figures_by_weight(run, corpus, settings.gate.uncommon) for run in runs]
    rows: list[dict[str, Any]] = []
    for weight, chosen_on in found[0]:
        figures = np.array([each[weight, chosen_on] for each in found])
        differences = figures[:, 0] - [each[ONE, "val"][0] for each in found]
        order = Order.from_differences(ONE, weight, differences.tolist())
        row = {"row": options.row, "weight": weight, "chosen on": chosen_on, "runs": len(runs)}
        of_all, of_rare, of_unseen = figures.mean(axis=0)
        row |= {"mR": of_all, "mR, rare word": of_rare, "mR, unseen word": of_unseen}
        rows.append(row | {f"above {ONE}": order.mean, "95 %, ±": order.interval[1] - order.mean})
    report("gates", rows, options)
    return 0


def figures_by_weight(run: Run, corpus: Corpus, uncommon: int) -> dict[tuple[str, str], list[float]]:
    """Return the mR on test, by the weight and the split that it was chosen on.

    It is of all queries, of those with a rare word, and of those with one that training has not seen.
    """
    val, test = (queries(run, corpus, split, uncommon) for split in ("val", "test"))
    recalls: dict[tuple[str, str], list[Floats]] = {}
    for of_val, of_test in zip(val, test, strict=True):
        weighed = {
            ("1/2, the sum", "–"): of_test.by_weight[HALF],
            (ONE, "val"): of_test.by_weight[of_val.best()],
            (TWO, "val"): _by_label(of_test, of_val),
            (ONE, "test"): of_test.by_weight[of_test.best()],
            (TWO, "test"): _by_label(of_test, of_test),
            ("the trained gate's", "val"): of_test.gated,
            (BETTER, "test"): of_test.by_weight[[0, -1]].max(axis=0),
            (BEST, "test"): of_test.by_weight.max(axis=0),
        }
        for weight, recall in weighed.items():
            recalls.setdefault(weight, []).append(recall)
    subsets = [[np.ones_like(q.rare) for q in test], [q.rare for q in test], [q.unseen for q in test]]
    return {weight: [_mean(recall, subset) for subset in subsets] for weight, recall in recalls.items()}


def queries(run: Run, corpus: Corpus, split: str, uncommon: int) -> tuple[Queries, Queries]:
    """Return a split's images and its sentences as queries for each other."""
    matcher = run.matcher
    assert isinstance(matcher, GVSE)
    inputs = split_inputs(run.recipe, corpus, split, run.vocabulary, run.sentence_encoder)
    images, sentences = run.embed_features(inputs.features), run.embed_prepared(inputs.sentences)
    owners = inputs.image_of_sentence
    of_uncommon, of_common = member_scores(images, sentences, matcher.dims[0])

    def recall(t: Any, side: int) -> Floats:
        found = ranks(t * of_uncommon + (1 - t) * of_common, owners)
        own = (found.sentence, found.image)[side]
        return np.asarray(np.mean([own < k for k in TOP], axis=0))

    texts, gates = corpus.split("train").texts(), gate_values(run, inputs)
    assert gates is not None
    rare, unseen = labels_by(inputs, texts, uncommon), labels_by(inputs, texts, 0)
    answered = np.bincount(owners, minlength=len(images)) > 0, np.ones(len(owners), bool)
    gated = recall(gates[0][:, None], 0), recall(gates[1][None, :], 1)
    by_weight = [np.stack([recall(weight, side) for weight in WEIGHTS]) for side in (0, 1)]
    one, other = (
        Queries(by_weight[i][:, some], gated[i][some], rare[i][some], unseen[i][some])
        for i, some in enumerate(answered)
    )
    return one, other


def _by_label(test: Queries, chosen_by: Queries) -> Floats:
    """The recall of each query with the weight that is best for queries of its label."""
    if_rare, if_not = chosen_by.best(chosen_by.rare), chosen_by.best(~chosen_by.rare)
    return np.asarray(np.where(test.rare, test.by_weight[if_rare], test.by_weight[if_not]))


def _mean(recall: list[Floats], subset: list[Mask]) -> float:
    """The mean over both directions, in percent."""
    return float(100 * np.mean([each[some].mean() for each, some in zip(recall, subset, strict=True)]))


if __name__ == "__main__":
    sys.exit(main())
