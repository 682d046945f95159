"""Put a trained run into the package as shipped weights, in half precision, with its export to ONNX.

python -m seesay_weights.ship runs/seesay-small src/seesay/weights/seesay-small

Encoders that the run has tuned are renamed to the 8-bit ones that `seesay_weights.quantise` makes from them.
The further losses of its recipe, which only this plug-in knows, are left out.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from safetensors.torch import load_file

from seesay.encoders.images.efficientnet import EIGHT_BITS
from seesay.encoders.settings import EncoderSettings
from seesay.paths import replace_text
from seesay.runs.config import RunConfig
from seesay.runs.export import export_run
from seesay.runs.folder import RECIPE, VOCABULARY, WEIGHTS
from seesay.runs.run import Run
from seesay.runs.torch_backend import save_weights

MAX_BYTES = 20_000_000


def ship(run: Path, target: Path) -> int:
    """Copy a run's description and vocabulary, convert its weights, export them; return the size in bytes."""
    target.mkdir(parents=True, exist_ok=True)
    save_weights(target, {key: tensor.half() for key, tensor in load_file(run / WEIGHTS).items()})
    shutil.copyfile(run / VOCABULARY, target / VOCABULARY)
    config = RunConfig.load(run)
    encoders = tuple(
        EncoderSettings(f"{encoder.kind}{EIGHT_BITS}") if encoder.get("tuned") else encoder
        for encoder in config.encoders
    )
    replace(config, encoders=encoders, graphs={}, weights=None).save(target)
    recipe = json.loads((run / RECIPE).read_text(encoding="utf-8"))
    recipe |= {"encoders": [encoder.dump() for encoder in encoders], "losses": []}
    replace_text(target / RECIPE, json.dumps(recipe, indent=1, ensure_ascii=False) + "\n")
    export_run(Run.load(str(target), "cpu"))
    for path in target.iterdir():
        path.chmod(0o644)
    return sum(path.stat().st_size for path in target.iterdir())


if __name__ == "__main__":
    size = ship(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{sys.argv[2]}: {size / 1e6:.1f} MB")
    if size > MAX_BYTES:
        sys.exit(f"more than {MAX_BYTES / 1e6:.0f} MB")
