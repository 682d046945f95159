"""The calibration of a trained run: its probabilities are fitted to the val split."""

from __future__ import annotations

from seesay.data.corpus import Corpus, PhraseCorpus
from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher
from seesay.protocols.base import PROTOCOLS
from seesay.protocols.evaluate import subject_of
from seesay.protocols.no_match import NoMatch, fit_calibration
from seesay.protocols.subject import RunSubject
from seesay.runs.calibration import CALIBRATION
from seesay.runs.run import Run


def calibrate(run: Run, corpus: Corpus | PhraseCorpus) -> None:
    """Fit the probabilities of a run that can be indexed, and store them in its folder.

    A corpus whose sentences have no English nouns tells nothing of what does not fit: there the usual
    probabilities stay.
    """
    (run.folder / CALIBRATION).unlink(missing_ok=True)
    if isinstance(corpus, PhraseCorpus) or not isinstance(run.matcher, EmbeddingMatcher):
        return
    subject = subject_of(run, corpus, "val", PROTOCOLS[NoMatch.name])
    assert isinstance(subject, RunSubject)
    try:
        fit_calibration([subject]).save(run.folder)
    except SeesayError:
        return
