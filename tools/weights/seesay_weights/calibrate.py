"""Fit a run's probabilities to splits of corpora, and store them with the run.

python -m seesay_weights.calibrate src/seesay/weights/seesay-small ../shared/flickr8k:val
python -m seesay_weights.calibrate src/seesay/weights/seesay-ground ../shared/flickr8k-phrases:val
    --images ../shared/flickr8k
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from seesay.protocols.base import PROTOCOLS
from seesay.protocols.evaluate import subject_of
from seesay.protocols.grounding import fit_boxes
from seesay.protocols.no_match import fit_calibration
from seesay.protocols.subject import RunSubject
from seesay.runs.calibration import Calibration, ScoreCalibration
from seesay.runs.run import Run
from seesay.runs.summary import open_corpus_of


def calibrate(folder: Path, splits: Sequence[str], images: Path | None) -> Calibration | ScoreCalibration:
    """Fit the probabilities of the run in a folder to splits, named CORPUS:SPLIT; store and return them."""
    run = Run.load(str(folder))
    protocol = PROTOCOLS["no-match" if run.config.regions is None else "grounding"]
    subjects = []
    for each in splits:
        corpus, _, split = each.rpartition(":")
        subject = subject_of(run, open_corpus_of([run], Path(corpus), images, None), split, protocol)
        assert isinstance(subject, RunSubject)
        subjects.append(subject)
    found = fit_calibration(subjects) if run.config.regions is None else fit_boxes(*subjects)
    found = found.rounded()
    run.update(calibration=found)
    return found


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("splits", nargs="+")
    parser.add_argument("--images", type=Path)
    options = parser.parse_args()
    print(calibrate(options.run, options.splits, options.images))
