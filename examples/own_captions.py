"""Train on your own captions: a table with the columns `image` and `caption`, beside the images.

python examples/own_captions.py museum/captions.csv museum-out "a blue vase with a narrow neck"
"""

from __future__ import annotations

import sys
from pathlib import Path

import seesay


def main(table: Path, out: Path, query: str, epochs: int = 40) -> None:
    # Without a column `split`, the images are divided 80/10/10 into train, val and test.
    corpus = seesay.read_corpus(table)
    print(f"{len(corpus.images)} images, {len(corpus.sentences)} sentences")
    for issue, count in corpus.issues.counts.items():
        print(f"{count} × {issue}")

    # Any key of the recipe can be given as a keyword. Training stops early if val no longer improves.
    run = seesay.train("irmatch-s", corpus, out / "run", encoders=["efficientnet-lite0"], epochs=epochs)
    print(seesay.evaluate(run, corpus))

    with seesay.Index.create(out / "museum.seesay", run) as index:
        index.update_images(table.parent)
        for hit in index.search(query, k=3):
            print(f"{hit.score:.3f}  {hit.path}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
