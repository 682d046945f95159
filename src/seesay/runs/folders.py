"""Where the files of a run are: its own folder, the shipped weights, or a CLIP model's in the cache."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from seesay.encoders.images.tuned import adopt_tuned
from seesay.encoders.towers import TowerName, is_two_tower
from seesay.errors import SeesayError, did_you_mean
from seesay.onnx import use_networks_of
from seesay.runs.config import RUN, RunConfig

NETWORKS = "encoders"  # in the folder of a run: the packaged networks that it brings as ONNX


def shipped_runs() -> list[Path]:
    """Return the folders of the weights that come with seesay, by name."""
    return sorted(path.parent for path in (Path(str(files("seesay"))) / "weights").glob(f"*/{RUN}"))


def run_config(folder: Path) -> RunConfig:
    """Read what a run says of itself, and make the encoders that it brings available.

    Raises:
        SeesayError: it cannot be read, or it lacks the weights of an encoder of its own.
    """
    config = RunConfig.load(folder)
    use_networks_of(folder / NETWORKS)
    for encoder in config.encoders:
        adopt_tuned(encoder, folder)
    return config


def run_folder(name: str) -> Path:
    """Return the folder of that run, of the shipped one of that name, or of a CLIP model as a run.

    Raises:
        SeesayError: there is none.
    """
    if is_two_tower(name):
        from seesay.runs.models import model_folder

        return model_folder(TowerName.parse(name))
    path = Path(name)
    if (path / RUN).is_file():
        return path
    shipped = {folder.name: folder for folder in shipped_runs()}
    if name in shipped:
        return shipped[name]
    library, colon, _ = name.partition(":")
    if colon and "/" not in library:
        TowerName.parse(name)  # no such library: says which there are
    raise SeesayError(
        f"{name}: no run there (no {RUN}), and no shipped weights of that name"
        f"{did_you_mean(name, shipped) or '.'} Shipped: {', '.join(shipped) or 'none'}."
    )
