"""Put a trained run into the package as shipped weights, in half precision.

python tools/ship.py runs/seesay-small src/seesay/weights/seesay-small
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

MOST_BYTES = 20_000_000


def ship(run: Path, place: Path) -> int:
    """Copy recipe and vocabulary, halve the weights; the bytes of all three."""
    place.mkdir(parents=True, exist_ok=True)
    weights = {key: value.half() for key, value in load_file(run / "weights.safetensors").items()}
    save_file(weights, place / "weights.safetensors")
    for name in ("recipe.yaml", "vocabulary.json"):
        shutil.copyfile(run / name, place / name)
    for name in ("recipe.yaml", "vocabulary.json", "weights.safetensors"):
        (place / name).chmod(0o644)
    return sum(path.stat().st_size for path in place.iterdir())


if __name__ == "__main__":
    size = ship(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{sys.argv[2]}: {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES / 1e6:.0f} MB")
