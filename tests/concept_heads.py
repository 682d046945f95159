"""What an encoder of concepts reads in the folder of a run: its metadata, and that it predicts concepts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path


def write_head(folder: Path, encoder: str | dict[str, str], arrays: Sequence[str], **matcher: int) -> None:
    config = {"encoders": [encoder], "arrays": list(arrays), "matcher": matcher}
    (folder / "run.json").write_text(json.dumps(config))
    (folder / "concepts.json").write_text("{}")
