"""Put a trained run into the package as shipped weights, in half precision, with its export to ONNX.

python tools/ship.py runs/seesay-small src/seesay/weights/seesay-small

Encoders that the run has tuned are named as the files in 8 bits that `tools.quantise` makes of them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file

from seesay.encoders import untuned
from seesay.encoders.images.efficientnet import EIGHT_BITS
from seesay.recipes.load import dump_recipe, read_recipe
from seesay.runs.export import export_run
from seesay.runs.run import Run

MAX_BYTES = 20_000_000


def ship(run: Path, target: Path) -> int:
    """Copy recipe and vocabulary, convert the weights to half precision and export them; return the bytes."""
    target.mkdir(parents=True, exist_ok=True)
    with safe_open(run / "weights.safetensors", "pt") as file:
        weights = {key: file.get_tensor(key).half() for key in file.keys()}  # noqa: SIM118
        save_file(weights, target / "weights.safetensors", file.metadata())
    shutil.copyfile(run / "vocabulary.json", target / "vocabulary.json")
    recipe = read_recipe(run / "recipe.yaml")
    encoders = tuple(
        each if untuned(each) == each else untuned(each) + EIGHT_BITS for each in recipe.encoders
    )
    text = dump_recipe(recipe.model_copy(update={"encoders": encoders}))
    (target / "recipe.yaml").write_text(text, encoding="utf-8")
    export_run(Run.load(str(target), "cpu"))
    for path in target.iterdir():
        path.chmod(0o644)
    return sum(path.stat().st_size for path in target.iterdir())


if __name__ == "__main__":
    size = ship(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{sys.argv[2]}: {size / 1e6:.1f} MB")
    if size > MAX_BYTES:
        sys.exit(f"more than {MAX_BYTES / 1e6:.0f} MB")
