"""The calibration of a trained run: its probabilities are fitted to the val split."""

from __future__ import annotations

from seesay.data.corpus import Corpus
from seesay.matchers.base import EmbeddingMatcher
from seesay.protocols.base import PROTOCOLS
from seesay.protocols.evaluate import subject_of
from seesay.protocols.grounding import GROUNDING
from seesay.protocols.grounding_calibration import fit_boxes
from seesay.protocols.no_match import NoMatch, fit_calibration
from seesay.protocols.subject import PhraseSubject, RunSubject
from seesay.runs.calibration import NothingToFitError
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary


def calibrate(run: Run, corpus: Corpus) -> None:
    """Fit the probabilities of a run that can be indexed or grounds phrases, and store them in its folder.

    A corpus whose sentences have no English nouns tells nothing of what does not fit: there the usual
    probabilities stay, boxes have none, and the summary in the folder says why.
    """
    run.update(calibration=None)
    if not corpus.has_boxes and not isinstance(run.matcher, EmbeddingMatcher):
        return
    protocol = GROUNDING if corpus.has_boxes else NoMatch.name
    subject = subject_of(run, corpus, "val", PROTOCOLS[protocol])
    try:
        if isinstance(subject, PhraseSubject):
            run.update(calibration=fit_boxes(subject).rounded())
        elif isinstance(subject, RunSubject):
            run.update(calibration=fit_calibration([subject]).rounded())
    except NothingToFitError as failure:
        summary = TrainingSummary.load(run.folder)
        summary.model_copy(update={"uncalibrated": str(failure)}).save(run.folder)
