"""List the licences of all packages that seesay requires: python tools/licences.py [EXTRA,...]."""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement


def main() -> None:
    """Print a table of package, version and licence."""
    extras = set(sys.argv[1].split(",")) if len(sys.argv) > 1 else set()
    rows = sorted(
        (each.name.lower(), each.version, licence(each)) for each in closure("seesay", extras).values()
    )
    width = max(len(name) + len(version) for name, version, _ in rows) + 3
    for name, version, terms in rows:
        print(f"{f'{name} {version}':<{width}}{terms}")
    print("\nWeights and words that ship with seesay: see src/seesay/weights/*/README.md.")


def closure(name: str, extras: set[str]) -> dict[str, Distribution]:
    """Return a package and all that it requires on this system, by name."""
    found: dict[str, Distribution] = {}
    waiting = [(name, frozenset(extras))]
    seen = set(waiting)
    while waiting:
        name, wanted = waiting.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:  # for another system or Python
            continue
        found[_plain(name)] = package
        for line in package.requires or ():
            needed = Requirement(line)
            environments = [{"extra": extra} for extra in (wanted or {""})]
            if needed.marker is not None and not any(map(needed.marker.evaluate, environments)):
                continue
            asked = (needed.name, frozenset(needed.extras))
            if asked not in seen:
                seen.add(asked)
                waiting.append(asked)
    return found


def licence(package: Distribution) -> str:
    """Return the licence as the package states it: an expression, a classifier, or a text's first line."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classifiers = [each for each in metadata.get_all("Classifier", []) if each.startswith("License ::")]
    if classifiers:
        return "; ".join(each.rpartition(" :: ")[2] for each in classifiers)
    text = metadata["License"].strip() if "License" in metadata else ""
    return text.splitlines()[0][:80] if text else "not stated"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
