"""Towers ready to run: exported, without PyTorch, or in PyTorch on a GPU."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from seesay.arrays import Ints, Vectors
from seesay.device import default_device
from seesay.encoders.settings import EXPORTED, EncoderSettings
from seesay.encoders.towers.inputs import Preprocessing, Tokens, TokenSettings, check_numbers
from seesay.errors import SeesayError, first_line, naming_extras
from seesay.onnx import EXPORTED_AGAIN, Session
from seesay.paths import (
    cache_dir,
    file_digest,
    home_expanded,
    locked,
    read_small_json,
    replace_text,
    unusable,
    unwritable_cache,
)

TOWER = "tower.json"  # in the folder of an export
_FORMAT = "3"  # of an export; models are exported again if it changes
_MANY = 16  # least sentences for which PyTorch is loaded
_PATIENCE = 600.0  # seconds to wait for another process that exports
_COPY_AGAIN = "copy the folder again, or write it again with `seesay export`"
# The files of a folder that libraries read; notes and pictures beside them do not change the model.
_READ = ("*.json", "*.safetensors", "merges.txt", "vocab.txt")
# Files that are added to an export before it is published; any other file may contain weights.
_NOTES = ("license", "licence", "copying", "notice", "readme", "")
_SETTLED = 2.0  # seconds after which any further change changes a file's times

# Images are encoded in threads: one of them imports the library and loads the model, and the others wait.
_loading = threading.RLock()


class Towers:
    """The networks of a model with their preprocessing and tokenizer. A network is opened on first use.

    Args:
        settings: the model.
        folder: of its export, which holds tower.json, image.onnx and, with a text tower, text.onnx and
            tokenizer.json.
        remedy: the advice in errors about missing or damaged files.
        device: the device of PyTorch; None for a GPU if there is one. This is checked on first use, so that
            a search does not import PyTorch.
        run: the folder of the run that holds tuned weights.

    Attributes:
        about: the contents of tower.json.
        preprocessing: makes the image tower's pixels.
        weights: identifies the weights.
        dim: length of the vectors.
        has_text: whether there is a text tower.

    Raises:
        SeesayError: a file is missing, or tower.json is damaged. Damage of other files is found when they are
            used.
    """

    def __init__(
        self,
        settings: EncoderSettings,
        folder: Path,
        remedy: str,
        device: str | None,
        run: Path | None = None,
    ) -> None:
        self.settings, self.folder, self._remedy, self._device = settings, folder, remedy, device
        self._holder = run
        try:
            self.about: Mapping[str, Any] = read_small_json(folder / TOWER)
            self.preprocessing = Preprocessing.from_json(self.about["preprocessing"])
            self.has_text = "tokens" in self.about
            self._settings = TokenSettings.from_json(self.about["tokens"]) if self.has_text else None
            _check(self.about)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise unusable(folder / TOWER, error, f"damaged ({error}); {remedy}.") from error
        for file in ("image.onnx", "text.onnx", "tokenizer.json")[: 3 if self.has_text else 1]:
            if not (folder / file).is_file():
                raise SeesayError(f"{folder / file}: missing; {remedy}.")
        self.dim: int = self.about["dim"]
        # An untrusted tower.json may name the weights of any model.
        self.weights: str = export_digest(folder) if settings.kind == EXPORTED else self.about["weights"]
        # Images are encoded in as many threads as there are cores, sentences in one.
        self._sessions = {
            kind: Session(folder / f"{kind}.onnx", threads, remedy)
            for kind, threads in (("image", 1), ("text", 0))
        }

    def fingerprint(self, *parts: str) -> str:
        """Hash the weights, the length of the vectors and the given entries of tower.json."""
        what = json.dumps([self.weights, self.dim, *(self.about[part] for part in parts), "tower v4"])
        return hashlib.blake2b(what.encode(), digest_size=8).hexdigest()

    @cached_property
    def tokens(self) -> Tokens:
        """The tokenizer of the text tower."""
        assert self._settings is not None
        path = self.folder / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_file(str(path))
            if tokenizer.num_special_tokens_to_add(False) > self._settings.length:
                raise ValueError(f"has more special tokens than {self._settings.length}")
        except Exception as error:  # tokenizers raises Exception itself
            raise SeesayError(f"{path}: damaged ({error}); {self._remedy}.") from error
        return Tokens(tokenizer, self._settings)

    def image(self, pixels: NDArray[np.uint8]) -> Vectors:
        """Compute vectors (n, d) of pixels (n, h, w, 3)."""
        return self._run("image", "pixels", pixels, few=0)

    def text(self, ids: Ints) -> Vectors:
        """Compute vectors (m, d) of ids (m, t)."""
        return self._run("text", "ids", ids, few=_MANY)

    def _run(self, kind: str, name: str, rows: NDArray[Any], few: int) -> Vectors:
        """Compute in PyTorch on a GPU if there are at least `few` rows, else in ONNX Runtime."""
        count = len(rows)
        with _loading:
            here = "cpu" if count < few else self._device or default_device()
            if here != "cpu":
                network = _in_pytorch(self.settings, here, self._holder)[kind]
        if here != "cpu":
            return network(rows)[0]
        path = self.folder / f"{kind}.onnx"
        try:
            vectors = self._sessions[kind].run({name: rows})[0]
            if vectors.dtype != np.float32 or vectors.shape != (count, self.dim):
                raise ValueError(f"dim is {self.dim}, and it gives {vectors.dtype}{list(vectors.shape)}")
        except SeesayError:
            raise
        except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
            raise SeesayError(
                f"{path}: does not fit its tower.json ({first_line(error)}); {self._remedy}."
            ) from error
        return vectors


def open_towers(settings: EncoderSettings, device: str | None = None, run: Path | None = None) -> Towers:
    """Open towers; they are exported the first time, and the export is used from then on.

    On a GPU, images and many sentences at once are encoded by PyTorch. A folder with an export is always
    opened on the CPU and identified by the contents of its files. `run` is the folder of the run that holds
    the export or tuned weights, if one does.

    Raises:
        SeesayError: the model does not exist, its library is not installed, its weights are pickled, its
            inputs are prepared in an unknown way, it cannot be exported, or a file of the export is damaged.
    """
    settings = checked_tower(settings, run)
    folder = export_folder(settings)
    if settings.kind == EXPORTED:
        return Towers(settings, folder, _COPY_AGAIN, "cpu")
    with suppress(SeesayError):  # missing or incomplete
        return Towers(settings, folder, EXPORTED_AGAIN, device, run)
    _export(settings, folder, run)
    return Towers(settings, folder, EXPORTED_AGAIN, device, run)


def checked_tower(settings: EncoderSettings, run: Path | None = None) -> EncoderSettings:
    """Return the settings of a tower with absolute paths; its export may lie in the folder `run`.

    Raises:
        SeesayError: no model is named, or the folder does not exist or holds no export.
    """
    settings = settings.within(run)
    key = "folder" if settings.kind == EXPORTED else "model"
    if not (model := settings.get(key)):
        raise SeesayError(f"Encoder {settings}: also name its {key}.")
    folder = home_expanded(model)
    if settings.kind == EXPORTED and not (folder / TOWER).is_file():
        raise SeesayError(
            f"{model}: no tower there (no {TOWER}); the folder of a run that "
            "`seesay export open_clip:MODEL --out FOLDER` wrote holds one in its folder `towers`."
        )
    if model.startswith((".", "/", "~")) and not folder.is_dir():
        raise SeesayError(f"{model}: no such folder; name a folder with a model, or a model of the hub.")
    return settings.absolute


def export_folder(settings: EncoderSettings) -> Path:
    """Return the folder of a model's export, which changes with the model's files."""
    if settings.kind == EXPORTED:
        return Path(settings.get("folder"))
    here, weights = Path(settings.get("model")), Path(settings.get("weights"))
    files = [path for pattern in _READ for path in here.rglob(pattern)] if here.is_dir() else [weights]
    digest = hashlib.blake2b(_FORMAT.encode(), digest_size=8)
    for path in sorted(filter(Path.is_file, files)):
        stat = path.stat()
        digest.update(f"{path} {stat.st_size} {stat.st_mtime_ns}".encode())
    return cache_dir() / "towers" / f"{_folder_name(settings)}-{digest.hexdigest()}"


def _folder_name(settings: EncoderSettings) -> str:
    """Return the common name of all exports of a model."""
    digest = hashlib.blake2b(str(settings).encode(), digest_size=4).hexdigest()
    safe = re.sub(r"[^\w.-]+", "-", settings.title).strip("-.")[-80:]
    return f"{safe}-{digest}"


def _export(settings: EncoderSettings, folder: Path, run: Path | None) -> None:
    """Export towers unless another process has, and remove outdated exports."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable_cache(folder.parent, error) from error
    busy = f"{folder.parent}: another process exports a model; wait until it has finished."
    with _loading, locked(folder.parent / "export.lock", busy, _PATIENCE):
        with suppress(SeesayError):
            Towers(settings, folder, EXPORTED_AGAIN, None)
            return
        with naming_extras(of="hub"):
            from seesay.encoders.towers.export import export, load_towers
        from seesay.progress import tell

        loaded = load_towers(settings, run)
        tell(f"Exporting {settings.title} to ONNX; later uses need no PyTorch.")
        export(settings, loaded, folder)
        for former in folder.parent.glob(f"{_folder_name(settings)}-*"):
            if former != folder and former.suffix != ".tmp":
                shutil.rmtree(former, ignore_errors=True)


@lru_cache(maxsize=4)
def _in_pytorch(
    settings: EncoderSettings, device: str, run: Path | None
) -> dict[str, Callable[..., list[Vectors]]]:
    """Load a model's networks with its library."""
    with naming_extras(of="hub"):
        from seesay.encoders.networks import in_pytorch
        from seesay.encoders.towers.export import PixelsToVectors, load_towers

    loaded = load_towers(settings, run)
    networks = {"image": in_pytorch(PixelsToVectors(loaded.image, loaded.preprocessing), device)}
    return networks if loaded.text is None else networks | {"text": in_pytorch(loaded.text.module, device)}


def _check(about: Mapping[str, Any]) -> None:
    """Raise a KeyError, TypeError or ValueError unless tower.json describes towers."""
    check_numbers("dim", (about["dim"],), 1, 1, 1 << 16, int)
    check_numbers("logit_scale", (about["logit_scale"],), 1, 0, 1e6, int, float)
    check_numbers("logit_bias", (about["logit_bias"],), 1, -1e6, 1e6, int, float)
    texts = ["weights", "vocabulary"] if "tokens" in about else ["weights"]
    if wrong := [key for key in texts if not isinstance(about[key], str)]:
        raise ValueError(f"{wrong[0]} is {about[wrong[0]]!r}")


def export_digest(folder: Path, without: str = TOWER) -> str:
    """Hash the files of an export, except notes (such as a licence or a card) and one given name.

    Raises:
        OSError: one cannot be read.
    """
    files = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and path.name != without and path.name.partition(".")[0].lower() not in _NOTES
    )
    return hashlib.blake2b("".join(map(_remembered, files)).encode(), digest_size=16).hexdigest()


def _remembered(path: Path) -> str:
    """Return a file's SHA-256, cached until its size or times change."""
    stat = path.stat()
    state = f"{path.resolve()} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"
    note = cache_dir() / "digests" / hashlib.sha256(state.encode()).hexdigest()
    with suppress(OSError, UnicodeError):
        if len(digest := note.read_text(encoding="ascii")) == 64:
            return digest
    digest = file_digest(path)
    if time.time() - max(stat.st_mtime, stat.st_ctime) > _SETTLED:
        with suppress(OSError):  # a cache that cannot be written costs the time again
            note.parent.mkdir(parents=True, exist_ok=True)
            replace_text(note, digest)
    return digest
