"""The calibration of a trained run: its probabilities are fitted to the val split."""

from __future__ import annotations

from contextlib import suppress

from seesay.data.corpus import Corpus, PhraseCorpus
from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher
from seesay.protocols.base import PROTOCOLS
from seesay.protocols.evaluate import subject_of
from seesay.protocols.grounding import GROUNDING
from seesay.protocols.grounding_calibration import fit_boxes
from seesay.protocols.no_match import NoMatch, fit_calibration
from seesay.protocols.subject import PhraseSubject, RunSubject
from seesay.runs.calibration import CALIBRATION
from seesay.runs.run import Run


def calibrate(run: Run, corpus: Corpus | PhraseCorpus) -> None:
    """Fit the probabilities of a run that can be indexed or grounds phrases, and store them in its folder.

    A corpus whose sentences have no English nouns tells nothing of what does not fit: there the usual
    probabilities stay, and boxes have none.
    """
    (run.folder / CALIBRATION).unlink(missing_ok=True)
    if not isinstance(corpus, PhraseCorpus) and not isinstance(run.matcher, EmbeddingMatcher):
        return
    protocol = GROUNDING if isinstance(corpus, PhraseCorpus) else NoMatch.name
    subject = subject_of(run, corpus, "val", PROTOCOLS[protocol])
    with suppress(SeesayError):
        if isinstance(subject, PhraseSubject):
            fit_boxes(subject).save(run.folder)
        elif isinstance(subject, RunSubject):
            fit_calibration([subject]).save(run.folder)
