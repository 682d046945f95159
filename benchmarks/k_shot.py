"""The K-shot protocol, with its word counts, bands and four test sets, compared with computing ranks alone.

python -m benchmarks.k_shot [--data DIR]
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np

from benchmarks._harness import arguments, report
from benchmarks.encoding import best_of_turns
from seesay.data.readers import read_corpus
from seesay.metrics.ranks import ranks
from seesay.protocols.evaluate import measure
from seesay.protocols.subject import Subject
from seesay.runs.scores import Scores
from seesay.text.vocabulary import word_counts

MOST_SECONDS = 5.0


def main() -> int:
    options = arguments(__doc__ or "", data="a captioned corpus").parse_args()
    corpus = read_corpus(options.data)
    train, test = corpus.split("train").texts(), corpus.split("test")
    owners = test.image_of_sentence()
    draw = np.random.default_rng(1)
    scores = draw.standard_normal((len(test.images), len(owners))).astype(np.float32)
    subject = Subject("drawn", "test", test, Scores(scores), whole=corpus)
    load = os.getloadavg()[0]
    times = best_of_turns(
        {
            "protocol": lambda: measure(subject, "k-shot"),
            "counts": lambda: (word_counts(train), word_counts(test.texts())),
            "ranks": lambda: ranks(scores, owners),
        },
        time.process_time,
    )
    row = {
        "scores": f"{scores.shape[0]} × {scores.shape[1]}",
        "training sentences": len(train),
        "load before": load,
        "protocol s": times["protocol"],
        "of it counting words s": times["counts"],
        "ranks alone s": times["ranks"],
    }
    report("k-shot", [row], options)
    return 0 if times["protocol"] <= MOST_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
