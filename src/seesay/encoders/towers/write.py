"""Towers copied into a run's folder, where they need no library: as they are, or with smaller weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from seesay.encoders.towers.digest import TOWER, export_digest
from seesay.encoders.towers.names import EXPORTED, TowerName
from seesay.encoders.towers.opened import open_towers
from seesay.encoders.towers.reduce import reduce_tower
from seesay.errors import SeesayError

_NETWORKS = ("image.onnx", "text.onnx")


def bring_towers(name: str, run: Path, bits: int = 32) -> str | None:
    """Copy towers into a run's folder, as `towers/HASH`; return their new name, None if they have no export.

    Args:
        name: LIBRARY:MODEL, or the name that towers have in another run.
        run: the run's folder.
        bits: of a weight: 32, 16 or 8.

    Raises:
        SeesayError: there is no such model, or its weights have fewer bits already.
    """
    parsed = TowerName.parse(name)
    towers = open_towers(parsed, "cpu")
    if not towers.exported:
        return None
    source, about = parsed.export_folder(), dict(towers.about)
    if bits != 32 and about.get("bits", 32) != 32:
        raise SeesayError(
            f"{parsed.title}: has {about['bits']} bits already; name the model that it was made of."
        )
    beside = run / "towers" / "new"
    beside.mkdir(parents=True, exist_ok=True)
    for path in filter(Path.is_file, source.iterdir()):
        if bits != 32 and path.name in _NETWORKS:
            reduce_tower(path, beside / path.name, bits)
        else:
            shutil.copyfile(path, beside / path.name)
    if bits != 32:
        (beside / TOWER).unlink()
        # Vectors of other weights are others, so the fingerprint must be.
        about |= {"weights": export_digest(beside), "bits": bits}
        (beside / TOWER).write_text(json.dumps(about, indent=1), encoding="utf-8")
    folder = beside.with_name(export_digest(beside))
    beside.replace(folder)
    return f"{EXPORTED}:{folder.resolve()}"
