"""Photographs of named things as a corpus: one is called "piano", "a piano" and "a photo of a piano".

python -m seesay_weights.named NAMED-PHOTOS CORPUS
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path


def main(source: Path, corpus: Path) -> None:
    """Copy the photographs, and write `captions.jsonl` for the `names.jsonl` beside them."""
    shutil.copytree(source, corpus, ignore=shutil.ignore_patterns("names.jsonl", "*.tar"))
    rows = []
    for line in (source / "names.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        name = " ".join(record["name"].replace("_", " ").split())
        one = f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
        rows.append(json.dumps({"image": record["image"], "captions": [name, one, f"a photo of {one}"]}))
    (corpus / "captions.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
