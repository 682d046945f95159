"""Fit a run's probabilities to splits of corpora, and store them with the run.

python tools/calibrate.py src/seesay/weights/seesay-small ../shared/flickr8k:val ../photos:test
"""

from __future__ import annotations

import sys
from pathlib import Path

from seesay.protocols.base import PROTOCOLS
from seesay.protocols.evaluate import subject_of
from seesay.protocols.no_match import fit_calibration
from seesay.protocols.subject import RunSubject
from seesay.runs.calibration import Calibration
from seesay.runs.corpus import open_corpus_of
from seesay.runs.run import Run


def calibrate(folder: Path, splits: list[str]) -> Calibration:
    """Fit the probabilities of the run in a folder to splits, named CORPUS:SPLIT, and store them there."""
    run = Run.load(str(folder))
    subjects = []
    for each in splits:
        corpus, _, split = each.rpartition(":")
        subject = subject_of(
            run, open_corpus_of([run], Path(corpus), None, None), split, PROTOCOLS["no-match"]
        )
        assert isinstance(subject, RunSubject)
        subjects.append(subject)
    found = fit_calibration(subjects)
    found.save(folder)
    return found


if __name__ == "__main__":
    print(calibrate(Path(sys.argv[1]), sys.argv[2:]))
