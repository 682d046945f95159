"""Towers ready to run: from their export, without PyTorch, or by PyTorch on a GPU."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from seesay.device import default_device
from seesay.encoders.towers.digest import TOWER, export_digest
from seesay.encoders.towers.names import EXPORTED, TowerName
from seesay.encoders.towers.preprocessing import Preprocessing, check_numbers
from seesay.encoders.towers.tokens import Ids, Tokens, TokenSettings
from seesay.errors import SeesayError, first_line, naming_extras
from seesay.onnx import EXPORTED_AGAIN, Session, cache_apart
from seesay.paths import locked, read_small_json

Vectors = NDArray[np.float32]

_MANY = 16  # sentences that PyTorch is loaded for
_PATIENCE = 600.0  # seconds to wait for another process that exports
_COPY_AGAIN = "copy the folder again, or write it again with `seesay export`"

# Images are encoded in threads: one of them imports the library and loads the model, and the others wait.
_loading = threading.RLock()


@dataclass(frozen=True)
class Towers:
    """Two functions, and what their inputs are made by.

    Attributes:
        about: what tower.json holds.
        preprocessing: makes the image tower's pixels.
        image: maps pixels (n, h, w, 3) uint8 to vectors (n, d).
        text: maps ids and mask (m, t) to vectors (m, d); None if there is no text tower.
        tokens: returns the tokenizer of the text tower.
    """

    about: Mapping[str, Any]
    preprocessing: Preprocessing
    image: Callable[[NDArray[np.uint8]], Vectors]
    text: Callable[[Ids, Ids], Vectors] | None
    tokens: Callable[[], Tokens] | None

    @property
    def exported(self) -> bool:
        """Whether each network is there in ONNX; one that cannot be exported runs in PyTorch."""
        return bool(self.about["networks"] == (["image"] if self.text is None else ["image", "text"]))


def open_towers(name: TowerName, device: str | None = None) -> Towers:
    """Open towers; they are exported the first time, and opened from there ever after.

    On a GPU images and many sentences at once are encoded by PyTorch. It is looked for when the first come,
    so that a search does not import PyTorch. A folder that holds an export is opened as it is, on the CPU;
    it is known by what its files hold, since its tower.json may name the weights of any model.

    Raises:
        SeesayError: there is no such model, its library is not installed, its weights are pickled, or its
            inputs are prepared in a way that seesay does not know; or a file of the export is damaged.
    """
    folder = name.export_folder()
    if name.library == EXPORTED:
        cache_apart(sorted(folder.glob("*.onnx")))
        opened = _read(folder, name, _COPY_AGAIN)
        if not opened.exported:
            raise SeesayError(f"{folder / TOWER}: damaged (networks are missing); {_COPY_AGAIN}.")
        # What counts of tower.json is part of the fingerprints by itself.
        weights = export_digest(folder, without=TOWER)
        return replace(opened, about={**opened.about, "weights": weights})
    if not _is_complete(folder):
        _export(name, folder)
    exported = _kept(folder, name, EXPORTED_AGAIN)
    return exported if device == "cpu" else _on_device(exported, name, device)


def _on_device(exported: Towers, name: TowerName, device: str | None) -> Towers:
    """Encode by PyTorch on a device that is chosen when the first inputs come."""

    def network(kind: str, in_onnx: Callable[..., Vectors], few: int, *inputs: NDArray[Any]) -> Vectors:
        with _loading:
            here = "cpu" if len(inputs[0]) < few else device or default_device()
            chosen = in_onnx if here == "cpu" else _in_pytorch(name, here)[kind]
        return chosen(*inputs)

    image = partial(network, "image", exported.image, 0)
    text = None if exported.text is None else partial(network, "text", exported.text, _MANY)
    return replace(exported, image=image, text=text)


def _is_complete(folder: Path) -> bool:
    """Return whether an export has all of its files, and may be opened; one that has not is made again."""
    try:
        about = read_small_json(folder / TOWER)
        return all((folder / file).is_file() for file in _files_of(about))
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _files_of(about: Mapping[str, Any]) -> list[str]:
    tokenizer = ["tokenizer.json"] if "tokens" in about else []
    return [f"{network}.onnx" for network in about["networks"]] + tokenizer


def _export(name: TowerName, folder: Path) -> None:
    """Export towers unless another process has, and remove exports of their former files."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(folder.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise SeesayError(
            f"{folder.parent}: cannot be written ({error.strerror}); set SEESAY_CACHE to a folder that can."
        ) from error
    busy = f"{folder.parent}: another process exports a model; wait until it has finished."
    with _loading, locked(folder.parent / "export.lock", busy, _PATIENCE):
        if _is_complete(folder):
            return
        with naming_extras(of="hub"):
            from seesay.encoders.towers.export import export, load_towers
        from seesay.progress import tell

        loaded = load_towers(name)
        tell(f"Exporting {name} to ONNX once; from now on it starts without PyTorch.")
        export(name, loaded, folder)
        for each in name.outdated():
            shutil.rmtree(each, ignore_errors=True)


@lru_cache(maxsize=4)
def _in_pytorch(name: TowerName, device: str) -> dict[str, Callable[..., Vectors]]:
    """Load a model's networks by its library."""
    with naming_extras(of="hub"):
        from seesay.encoders.towers.export import PixelsToVectors, in_pytorch, load_towers

    loaded = load_towers(name)
    networks = {"image": in_pytorch(PixelsToVectors(loaded.image, loaded.preprocessing), device)}
    return networks if loaded.text is None else networks | {"text": in_pytorch(loaded.text.module, device)}


def _read(folder: Path, name: TowerName, remedy: str) -> Towers:
    """Read an export; a network is opened when it is first used.

    Args:
        folder: holds tower.json and what it names.
        name: of the model.
        remedy: what to do about a file that is missing or damaged.

    Raises:
        SeesayError: a file is missing, or tower.json is damaged; another's damage is found when it is used.
    """
    try:
        about = read_small_json(folder / TOWER)
        preprocessing = Preprocessing.from_json(about["preprocessing"])
        settings = TokenSettings.from_json(about["tokens"]) if "tokens" in about else None
        _check(about)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SeesayError(f"{folder / TOWER}: damaged ({error}); {remedy}.") from error
    for file in _files_of(about):
        if not (folder / file).is_file():
            raise SeesayError(f"{folder / file}: missing; {remedy}.")

    def network(kind: str, inputs: list[str], threads: int) -> Callable[..., Vectors]:
        if kind in about["networks"]:
            return _network(folder / f"{kind}.onnx", inputs, about["dim"], threads, remedy)
        return lambda *arrays: _in_pytorch(name, "cpu")[kind](*arrays)

    # Images are encoded in as many threads as there are cores, sentences in one.
    image = network("image", ["pixels"], 1)
    if settings is None:
        return Towers(about, preprocessing, image, None, None)
    text = network("text", about["text_inputs"], 0)
    tokens = partial(_tokens, folder / "tokenizer.json", settings, remedy)
    return Towers(about, preprocessing, image, text, tokens)


_kept = lru_cache(maxsize=4)(_read)  # an export of the cache does not change


def _check(about: Mapping[str, Any]) -> None:
    """Raise a KeyError, TypeError or ValueError unless tower.json describes towers."""
    check_numbers("dim", (about["dim"],), 1, 1, 1 << 16, int)
    check_numbers("logit_scale", (about["logit_scale"],), 1, 0, 1e6, int, float)
    check_numbers("logit_bias", (about["logit_bias"],), 1, -1e6, 1e6, int, float)
    check_numbers("bits", (about.get("bits", 32),), 1, 1, 32, int)
    texts = ["weights", "vocabulary"] if "tokens" in about else ["weights"]
    if wrong := [key for key in texts if not isinstance(about[key], str)]:
        raise ValueError(f"{wrong[0]} is {about[wrong[0]]!r}")
    if about["networks"] not in ([], ["image"], ["text"], ["image", "text"]):
        raise ValueError(f"networks is {about['networks']!r}")
    if "tokens" in about and about["text_inputs"] not in (["ids"], ["ids", "mask"]):
        raise ValueError(f"text_inputs is {about['text_inputs']!r}")


def _network(path: Path, inputs: list[str], dim: int, threads: int, remedy: str) -> Callable[..., Vectors]:
    """Return a function that opens the network when it is first called, and leaves out arrays it ignores."""
    session = Session(lambda: path, threads, remedy)

    def run(*arrays: NDArray[Any]) -> Vectors:
        try:
            vectors = session.run(dict(zip(inputs, arrays, strict=False)))[0]
            if vectors.dtype != np.float32 or vectors.shape != (len(arrays[0]), dim):
                raise ValueError(f"dim is {dim}, and it gives {vectors.dtype}{list(vectors.shape)}")
        except SeesayError:
            raise
        except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
            raise SeesayError(
                f"{path}: does not fit its tower.json ({first_line(error)}); {remedy}."
            ) from error
        return vectors

    return run


def _tokens(path: Path, settings: TokenSettings, remedy: str) -> Tokens:
    try:
        tokenizer = Tokenizer.from_file(str(path))
        if tokenizer.num_special_tokens_to_add(False) > settings.length:
            raise ValueError(f"has more special tokens than {settings.length}")
    except Exception as error:  # tokenizers raises Exception itself
        raise SeesayError(f"{path}: damaged ({error}); {remedy}.") from error
    return Tokens(tokenizer, settings)
