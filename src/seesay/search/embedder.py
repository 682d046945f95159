"""The matcher of an index: a run, maybe with a detector of objects."""

from __future__ import annotations

from pathlib import Path

from seesay.runs.embedder import Embedder

DEFAULT_RUN = "seesay-small"


def load_embedder(run: str | Path | Embedder, detector: Path | None = None) -> Embedder:
    """Load the run of that name or folder, maybe with a detector; an embedder is returned as it is.

    Raises:
        SeesayError: there is no such run, or the file is no detector.
    """
    if not isinstance(run, str | Path):
        return run
    from seesay.runs.run import Run

    loaded = Run.load(str(run))
    if detector is None:
        return loaded
    from seesay.encoders.detector import Detector
    from seesay.search.detecting import Detecting

    return Detecting(loaded, Detector(detector))
