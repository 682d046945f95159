"""Write towers to a folder that needs no library: as they are, or with weights of fewer bits."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seesay.encoders.towers.digest import export_digest
from seesay.encoders.towers.names import EXPORTED, TOWERS, TowerName
from seesay.encoders.towers.opened import OpenTowers, open_export, open_towers
from seesay.encoders.towers.recall import ENOUGH, RecallCheck, check_recall
from seesay.encoders.towers.reduce import BITS, reduce_tower
from seesay.errors import SeesayError
from seesay.paths import check_new_folder, new_folder

_NETWORKS = ("image.onnx", "text.onnx")


@dataclass(frozen=True)
class TowerExport:
    """Towers in a folder, to be named `onnx:FOLDER`.

    Attributes:
        folder: where they are.
        bits: of a weight.
        sizes: bytes of each file.
        full_sizes: bytes of each network with 32 bits.
        check: what towers of fewer bits find; None for 32.
    """

    folder: Path
    bits: int
    sizes: dict[str, int]
    full_sizes: dict[str, int]
    check: RecallCheck | None

    def to_dict(self) -> dict[str, object]:
        """Return the fields, as JSON has them."""
        return asdict(self) | {"folder": str(self.folder)}


def write_towers(name: str, out: Path, bits: int = 32, photos: Path | None = None) -> TowerExport:
    """Write both towers of a model to a folder, or the one it has: all files or none.

    Args:
        name: LIBRARY:MODEL, or onnx:FOLDER to reduce what was written before.
        out: the folder to write, which must not exist or be empty.
        bits: of a weight: 32, 16 or 8.
        photos: a folder of photos, on which fewer bits must find what 32 find.

    Raises:
        SeesayError: there is no such model, it cannot be exported, `out` holds something or cannot be
            written, `photos` are too few, or fewer bits find others of them.
        MissingExtraError: a package is not installed that exports the model or reduces it.
    """
    _check_arguments(bits, photos)
    check_new_folder(out)
    parsed = TowerName.parse(name)
    full = open_towers(parsed, "cpu")
    source = parsed.export_folder()
    if not (source / "tower.json").is_file():
        raise SeesayError(f"{name}: runs in PyTorch only, and cannot be exported to ONNX.")
    if bits != 32 and full.about.get("bits", 32) != 32:
        raise SeesayError(
            f"{name}: has {full.about['bits']} bits already; name the model that it was made of."
        )
    with new_folder(out) as beside:
        check = _fill(source, beside, full, bits, photos)
    full_sizes = {file: size for file, size in _sizes(source).items() if file in _NETWORKS}
    has = bits if bits != 32 else full.about.get("bits", 32)  # a folder of fewer is copied as it is
    return TowerExport(out, has, _sizes(out), full_sizes, check)


def bring_towers(name: str, run: Path) -> str | None:
    """Copy towers into a run's folder; return the name that they have there, None if they are not exported.

    Raises:
        SeesayError: there is no such model.
    """
    parsed = TowerName.parse(name)
    open_towers(parsed, "cpu")
    source = parsed.export_folder()
    if not (source / "tower.json").is_file():
        return None
    digest = export_digest(source)
    shutil.copytree(source, run / TOWERS / digest, dirs_exist_ok=True)
    return f"{EXPORTED}:@{digest}"


def _check_arguments(bits: int, photos: Path | None) -> None:
    if bits not in BITS:
        raise SeesayError(f"bits: wanted 8, 16 or 32, got {bits}.")
    if (bits == 32) != (photos is None):
        raise SeesayError("Name a folder of photos for a check of 8 or 16 bits, and none for 32.")


def _fill(source: Path, target: Path, full: OpenTowers, bits: int, photos: Path | None) -> RecallCheck | None:
    """Copy an export, or write it with fewer bits and check it."""
    if bits == 32 or photos is None:
        shutil.copytree(source, target, dirs_exist_ok=True)
        return None
    for path in source.iterdir():
        if path.name in _NETWORKS:
            reduce_tower(path, target / path.name, bits)
    if full.text is not None:
        shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
    # Vectors of other weights are others, so the fingerprint must be.
    about = {**full.about, "weights": export_digest(target), "bits": bits}
    _write_about(target, about)
    check = check_recall(full, open_export(target), photos)
    if not check.passed:
        raise SeesayError(
            f"With {bits} bits: {check}; at least {ENOUGH} is asked, so nothing was written. Take "
            + ("16 bits, or 32." if bits == 8 else "32 bits.")
        )
    _write_about(target, about | {"check": check.to_dict()})
    return check


def _write_about(folder: Path, about: dict[str, Any]) -> None:
    (folder / "tower.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
