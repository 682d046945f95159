"""Fill the table blocks of README and docs from results/; with --check, fail if one is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from seesay.errors import SeesayError

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # a script does not find the package of its folder

from tools.documents import refresh  # noqa: E402


def main() -> int:
    """Fill or check every document; return 1 if a table is stale, 2 if a block names an unknown table."""
    check = "--check" in sys.argv[1:]
    stale = []
    documents = [ROOT / "README.md"]
    for folder in ("docs", "src"):
        documents += sorted((ROOT / folder).rglob("*.md"))
    for document in documents:
        try:
            if document.exists() and refresh(document, ROOT / "results", check=check):
                stale.append(document.relative_to(ROOT))
        except SeesayError as error:
            print(error, file=sys.stderr)
            return 2
    for document in stale:
        print(f"{document}: tables {'are stale: run `make tables`' if check else 'filled'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
