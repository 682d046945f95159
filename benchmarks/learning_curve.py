"""How the rows of a table, and their order, depend on the number of images that they are trained on.

For each number, the train split has that many images, the first in a shuffled order that is the same for all;
val and test are unchanged. Runs are kept in a folder for each number, so that the command can be interrupted
and repeated.

    python -m benchmarks.learning_curve [--table sco-2] [--rows sco-ctx,sco-ctx-gen] [--images 1500,3000,6000]
        [--seeds 1,2,3] [--orders "sco-ctx<sco-ctx-gen"]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import arguments, report
from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.recipes.table import TableDefinition, load_table
from seesay.results.records import Row
from seesay.training.table import TableRuns
from tools.orders import paired_order, read_claims
from tools.variants import variant


def main() -> int:
    parser = arguments(__doc__ or "", data="a captioned corpus")
    parser.add_argument("--table", default="sco-2", help="a table of recipes, as `seesay table` lists them")
    parser.add_argument("--rows", default="sco-ctx,sco-ctx-gen", help="its rows")
    parser.add_argument("--images", default="1500,3000,6000", help="numbers of training images")
    parser.add_argument("--seeds", default="1", help="of each row's runs, such as 1,2,3")
    parser.add_argument("--orders", default="", help="claims of order between rows, such as 'a<b,c<d'")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/learning-curve"), help="the folder of the runs"
    )
    options = parser.parse_args()
    corpus, seeds = read_corpus(options.data), list(map(int, options.seeds.split(",")))
    definition = load_table(options.table).only(options.rows.split(","))
    claims = read_claims(options.orders) if options.orders else []
    names = {row.name for row in definition.rows}
    if unknown := {name for claim in claims for name in claim} - names:
        parser.error(f"--orders: '{min(unknown)}' is none of the rows {', '.join(sorted(names))}")
    if claims and len(seeds) < 2:
        parser.error("--orders: a claim of order needs two seeds, such as --seeds 1,2")
    rows: list[dict[str, Any]] = []
    orders: list[dict[str, Any]] = []
    for count in map(int, options.images.split(",")):
        found = measured(definition, with_train_images(corpus, count), options.runs / str(count), seeds)
        rows += [{"row": name, "images": count} | _spread(own) for name, own in found.items()]
        for low, high in claims:
            claim = {"claim": f"{low} < {high}", "images": count, "seeds": len(seeds)}
            orders.append(claim | _difference(found[low], found[high]))
    report("learning-curve", rows, options)
    if orders:
        report("learning-curve-orders", orders, options)
    return 0


def measured(
    definition: TableDefinition, corpus: Corpus, folder: Path, seeds: Sequence[int]
) -> dict[str, list[Row]]:
    """Train the missing runs of the table's rows, and return the measured rows of each by its name."""
    runs = TableRuns(definition, corpus, folder)
    found: dict[str, list[Row]] = {row.name: [] for row in definition.rows}
    for row in definition.rows:
        for seed in seeds:
            print(f"{row.name}, {folder.name} images, seed {seed} …", file=sys.stderr)
            found[row.name].append(runs.measured(row, seed))
    return found


def with_train_images(corpus: Corpus, count: int) -> Corpus:
    """Return the corpus with `count` images of its train split; a larger number includes a smaller one's."""
    train = np.array([i for i, image in enumerate(corpus.images) if image.split == "train"])
    left_out = set(np.random.default_rng(0).permutation(train)[count:].tolist())
    kept = {old: new for new, old in enumerate(i for i in range(len(corpus.images)) if i not in left_out)}
    sentences = [replace(each, image=kept[each.image]) for each in corpus.sentences if each.image in kept]
    return replace(corpus, images=tuple(corpus.images[i] for i in kept), sentences=tuple(sentences))


def _spread(rows: Sequence[Row]) -> dict[str, Any]:
    """The mean of the rows' mR and its standard deviation over seeds; None for one seed."""
    values = [row.monitor for row in rows]
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"seeds": len(values), "mR": statistics.mean(values), "±": deviation}


def _difference(lower: Sequence[Row], higher: Sequence[Row]) -> dict[str, float]:
    """By how much the second rows are above the first, with the interval and p of `paired_order`."""
    order = paired_order([*lower, *higher], variant(lower[0]), variant(higher[0]))
    least, most = order.interval
    return {"mR, difference": order.mean, "95 %, from": least, "to": most, "p": order.p}


if __name__ == "__main__":
    sys.exit(main())
