"""How the rows of a table depend on the number of images that they are trained on.

Each number of images is a corpus of its own, whose train split is the first so many images of one shuffled
order; val and test stay whole. Runs are kept in a folder for each number, so that the command can be
interrupted and repeated.

    python -m benchmarks.learning_curve [--table sco-2] [--rows sco-ctx,sco-ctx-gen] [--images 1500,3000,6000]
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import arguments, report
from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.recipes.table import load_table
from seesay.training.table import TableRuns


def main() -> int:
    parser = arguments(__doc__ or "", data="a captioned corpus")
    parser.add_argument("--table", default="sco-2", help="a table of recipes, as `seesay table` lists them")
    parser.add_argument("--rows", default="sco-ctx,sco-ctx-gen", help="its rows")
    parser.add_argument("--images", default="1500,3000,6000", help="numbers of training images")
    parser.add_argument("--seeds", default="1", help="of each row's runs, such as 1,2,3")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/learning-curve"), help="the folder of the runs"
    )
    options = parser.parse_args()
    corpus, seeds = read_corpus(options.data), list(map(int, options.seeds.split(",")))
    definition = load_table(options.table).only(options.rows.split(","))
    rows: dict[str, dict[str, Any]] = {
        row.name: {"recipe": row.name, "seeds": len(seeds)} for row in definition.rows
    }
    for count in map(int, options.images.split(",")):
        runs = TableRuns(definition, with_train_images(corpus, count), options.runs / str(count))
        for row in definition.rows:
            print(f"{row.name}, {count} images …", file=sys.stderr)
            found = [runs.measured(row, seed).result for seed in seeds]
            rows[row.name][f"mR, {count:,} images"] = statistics.mean(each.monitor for each in found)
    report("learning-curve", list(rows.values()), options)
    return 0


def with_train_images(corpus: Corpus, count: int) -> Corpus:
    """Return the corpus with so many images of its train split; those of fewer are among those of more."""
    train = np.array([i for i, image in enumerate(corpus.images) if image.split == "train"])
    left_out = set(np.random.default_rng(0).permutation(train)[count:].tolist())
    kept = {old: new for new, old in enumerate(i for i in range(len(corpus.images)) if i not in left_out)}
    sentences = [replace(each, image=kept[each.image]) for each in corpus.sentences if each.image in kept]
    return replace(corpus, images=tuple(corpus.images[i] for i in kept), sentences=tuple(sentences))


if __name__ == "__main__":
    sys.exit(main())
