"""How much a gate of GVSE can gain over one weight: its two metrics weighed in four ways.

A gate learns which queries hold a word that is rare in training. So the best gate that there can be knows it
of every query, and has one weight for queries with such a word and another for the others. Both are chosen on
val, as is the one weight that does not look at the query. All are measured on test, with the trained gate.

Runs that are missing are trained first, as `seesay table` does.

    python -m benchmarks.gates [--row gvse-gated-plus] [--seeds 1,2,3] [--runs runs] [--data CORPUS]
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._harness import arguments, report
from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.matchers.gvse import GVSE, GVSESettings
from seesay.metrics.ranks import ranks
from seesay.metrics.recall import TOP
from seesay.recipes.table import load_table
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.training.gates import labels_by
from seesay.training.table import TableRuns

WEIGHTS = np.linspace(0, 1, 41)  # of the metric for uncommon content
SIDES = ("image", "sentence")


class Queries(NamedTuple):
    """Queries of one side; a query's figure is for how many of K = 1, 5, 10 it is answered, as a share."""

    by_weight: NDArray[np.floating]  # (weights, n)
    gated: NDArray[np.floating]  # with the trained gate's weight, (n,)
    rare: NDArray[np.bool_]  # which hold a word that is rare in training, (n,)


def main() -> int:
    parser = arguments(__doc__ or "", data="a captioned corpus")
    parser.add_argument("--row", default="gvse-gated-plus", help="a fusion with gates, of the table flickr8k")
    parser.add_argument("--seeds", default="1,2,3", help="of its runs")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder of the runs")
    options = parser.parse_args()
    corpus, definition = read_corpus(options.data), load_table("flickr8k").only([options.row])
    settings = definition.recipe(options.row, corpus.name, (), 1).matcher
    if not isinstance(settings, GVSESettings) or settings.gate is None:
        parser.error(f"--row: '{options.row}' is not a fusion with gates, such as gvse-gated-plus")
    table = TableRuns(definition, corpus, options.runs)
    runs = [table.run(options.row, int(seed)) for seed in options.seeds.split(",")]
    found = [weighed(Run.load(str(folder)), corpus, settings.gate.uncommon) for folder in runs]
    rows: list[dict[str, Any]] = []
    for way in found[0]:
        all_queries, rare = zip(*(each[way] for each in found), strict=True)
        figures = {
            "mR": statistics.mean(all_queries),
            "mR of queries with a rare word": statistics.mean(rare),
        }
        rows.append({"weight": way, "runs": len(found)} | figures)
    report("gates", rows, options)
    return 0


def weighed(run: Run, corpus: Corpus, most: int) -> dict[str, tuple[float, float]]:
    """Return for each way the mR on test of all queries, and of those with a rare word."""
    val, test = (queries(run, corpus, split, most) for split in ("val", "test"))
    taken: dict[str, list[NDArray[np.floating]]] = {}
    for side in SIDES:
        mine, there = val[side], test[side]
        one, if_rare, if_not = (
            int(mine.by_weight[:, chosen].mean(axis=1).argmax())
            for chosen in (np.ones_like(mine.rare), mine.rare, ~mine.rare)
        )
        ways = {
            "1/2, the sum": there.by_weight[len(WEIGHTS) // 2],
            "one for all queries": there.by_weight[one],
            "one for queries with a rare word, one for others": np.where(
                there.rare, there.by_weight[if_rare], there.by_weight[if_not]
            ),
            "the trained gate's": there.gated,
        }
        for way, figures in ways.items():
            taken.setdefault(way, []).append(figures)
    rare = [test[side].rare for side in SIDES]
    return {
        way: (_mean(figures), _mean([each[few] for each, few in zip(figures, rare, strict=True)]))
        for way, figures in taken.items()
    }


def queries(run: Run, corpus: Corpus, split: str, most: int) -> dict[str, Queries]:
    """Return a split's images and sentences as queries; rare words occur at most `most` times in training."""
    matcher = run.matcher
    assert isinstance(matcher, GVSE)
    inputs = split_inputs(run.recipe, corpus, split, run.vocabulary, run.sentence_encoder)
    vectors = {"image": run.embed_features(inputs.features), "sentence": run.embed_prepared(inputs.sentences)}
    first = matcher.dims[0]
    uncommon = vectors["image"][:, :first] @ vectors["sentence"][:, :first].T
    common = vectors["image"][:, first:] @ vectors["sentence"][:, first:].T
    labels = labels_by(inputs, corpus.split("train").texts(), most)
    found = {}
    for side, rare in zip(SIDES, labels, strict=True):

        def figures(t: Any, side: str = side) -> NDArray[np.floating]:
            ranked = ranks(t * uncommon + (1 - t) * common, inputs.image_of_sentence)
            own = ranked.sentence if side == "image" else ranked.image
            return np.asarray(np.mean([own < k for k in TOP], axis=0))

        with torch.inference_mode():
            t = getattr(matcher, f"{side}_gate")(torch.from_numpy(vectors[side])).sigmoid().numpy()
        gated = figures(t[:, None] if side == "image" else t[None, :])
        found[side] = Queries(np.stack([figures(weight) for weight in WEIGHTS]), gated, rare)
    return found


def _mean(figures: list[NDArray[np.floating]]) -> float:
    """The mean over both directions, in percent."""
    return float(100 * np.mean([each.mean() for each in figures]))


if __name__ == "__main__":
    sys.exit(main())
