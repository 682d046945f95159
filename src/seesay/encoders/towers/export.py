"""Load towers with their library, compare inputs with it, and export to ONNX: the part that needs PyTorch."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from seesay.encoders.images.tuned import tuned_file
from seesay.encoders.networks import in_pytorch
from seesay.encoders.settings import TIMM, EncoderSettings
from seesay.encoders.towers.inputs import Preprocessing
from seesay.encoders.towers.libraries import LoadedText, LoadedTowers, load_open_clip, load_timm
from seesay.encoders.towers.opened import TOWER
from seesay.errors import MissingExtraError, SeesayError, first_line, naming_extras
from seesay.onnx import onnx_session, trace
from seesay.paths import replacing_folder, unwritable_cache

TOLERANCE = 1e-4  # between the vectors of PyTorch and of ONNX Runtime, relative to their length

# Sentences whose ids are compared with the library's before the towers are used.
SENTENCES = (
    "A dog runs through the snow .",
    "Two  men's\tbikes; they're RED & \"wet\" — aren't they?",
    "naïve café, ÉCOLE, 2021: 50 % off!! :-) #1 @home",
    "犬が雪の中を走る。 Собака бежит по снегу. كلب يجري في الثلج",
    "🐕‍🦺 on a 🛹 &amp; more…",
    "",
    "many words " * 100,
)


def load_towers(settings: EncoderSettings, run: Path | None = None) -> LoadedTowers:
    """Load towers with their library and compare its preprocessing and tokenizer with seesay's.

    `run` is the folder of the run that holds tuned weights.

    Raises:
        SeesayError: the library is missing, has no such model, or prepares inputs in an unknown way.
    """
    try:
        with naming_extras(of="hub"):
            if settings.get("tuned"):
                loaded = _load_tuned(settings, run)
            elif settings.kind == TIMM:
                loaded = load_timm(settings)
            else:
                loaded = load_open_clip(settings.get("model"), settings.get("weights"))
        _check_pixels(loaded)
        if loaded.text is not None:
            _check_ids(loaded.text)
    except MissingExtraError:
        raise
    except SeesayError as refused:
        end = "" if str(refused).endswith((".", "?")) else "."
        raise SeesayError(f"{settings.title}: {refused}{end}") from refused
    except Exception as failure:  # a hub's client raises many kinds for an unknown name or no network
        reason = first_line(failure)
        if "torchvision::" in reason:
            reason += "; torch and torchvision do not fit, install both from one index"
        raise SeesayError(f"{settings.kind} could not load '{settings.get('model')}': {reason}") from failure
    return loaded


def _load_tuned(settings: EncoderSettings, run: Path | None) -> LoadedTowers:
    """Load a network of timm with the weights of a run that tuned it; nothing is downloaded."""
    loaded, path = load_timm(settings, pretrained=False), tuned_file(settings.get("tuned"), run)
    try:
        PixelsToVectors(loaded.image, loaded.preprocessing).load_state_dict(load_file(path))
    except (RuntimeError, SafetensorError) as failure:
        raise SeesayError(f"{path.name} does not hold the weights of this network; train again") from failure
    return loaded


def _check_pixels(loaded: LoadedTowers) -> None:
    """Reject a model if seesay's pixels differ from its library's."""
    draw = np.random.default_rng(0)
    mean, std = (np.array(each) for each in (loaded.preprocessing.mean, loaded.preprocessing.std))
    for height, width in ((500, 375), (375, 501), (60, 47)):
        image = Image.fromarray(draw.integers(0, 256, (height, width, 3), dtype=np.uint8))
        ours = (loaded.preprocessing.apply(np.asarray(image)) / 255 - mean) / std
        theirs = loaded.library_pixels(image).transpose(1, 2, 0)
        if ours.shape != theirs.shape or np.abs((ours - theirs) * std).max() > 0.5 / 255:
            raise SeesayError("its library prepares images in a way that seesay does not know")


def _check_ids(text: LoadedText) -> None:
    ours, theirs = text.tokens.ids(SENTENCES), text.library_ids(SENTENCES)
    if ours.shape != theirs.shape or not np.array_equal(ours, theirs):
        wrong = SENTENCES if ours.shape != theirs.shape else np.array(SENTENCES)[(ours != theirs).any(axis=1)]
        raise SeesayError(f"its tokenizer reads {wrong[0][:40]!r} in a way that seesay does not know")


class PixelsToVectors(nn.Module):
    """Pixels (n, h, w, 3) uint8 to vectors (n, d): normalisation, and the tower."""

    def __init__(self, tower: nn.Module, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.tower = tower
        self.mean = nn.Buffer(torch.tensor(preprocessing.mean).view(1, 3, 1, 1), persistent=False)
        self.std = nn.Buffer(torch.tensor(preprocessing.std).view(1, 3, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Compute vectors, not normalised."""
        images = pixels.permute(0, 3, 1, 2).float() / 255
        vectors: Tensor = self.tower((images - self.mean) / self.std)
        return vectors.flatten(1)


def export(settings: EncoderSettings, loaded: LoadedTowers, folder: Path) -> None:
    """Write image.onnx, tower.json and, if there is a text tower, text.onnx and tokenizer.json: all or none.

    Raises:
        SeesayError: a network cannot be exported, its vectors in ONNX Runtime differ from PyTorch's, or the
            cache cannot be written.
    """
    try:
        with replacing_folder(folder) as beside:
            about = {
                "weights": _hash_of_tensors(loaded.weights) + loaded.changed,
                "dim": _export_image(loaded, beside / "image.onnx"),
                "logit_scale": loaded.logit_scale,
                "logit_bias": loaded.logit_bias,
                "preprocessing": asdict(loaded.preprocessing),
            }
            if loaded.text is not None:
                about |= _export_text(loaded.text, beside)
            (beside / TOWER).write_text(json.dumps(about, indent=1), encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)  # an incomplete export
    except SeesayError as refused:
        raise SeesayError(f"{settings.title}: {refused}; choose another model.") from refused
    except OSError as error:
        raise unwritable_cache(folder, error) from error


def _export_image(loaded: LoadedTowers, path: Path) -> int:
    """Write an image tower, which takes pixels (n, h, w, 3), and return the length of its vectors."""
    image, draw = PixelsToVectors(loaded.image, loaded.preprocessing), np.random.default_rng(0)
    one, three = (draw.integers(0, 256, (n, *loaded.preprocessing.crop, 3), dtype=np.uint8) for n in (1, 3))
    _to_onnx(image, path, "pixels", [one, three])
    return int(in_pytorch(image, "cpu")(one)[0].shape[1])


def _export_text(text: LoadedText, folder: Path) -> dict[str, Any]:
    """Write a text tower and its tokenizer, and return their entries of tower.json."""
    ids = [text.tokens.ids(some) for some in (SENTENCES[:2], SENTENCES[2:5])]
    _to_onnx(text.module, folder / "text.onnx", "ids", ids)
    tokenizer = text.tokens.tokenizer
    tokenizer.save(str(folder / "tokenizer.json"))
    vocabulary = hashlib.blake2b(tokenizer.to_str().encode(), digest_size=16).hexdigest()
    return {"tokens": asdict(text.tokens.settings), "vocabulary": vocabulary}


def _to_onnx(module: nn.Module, path: Path, name: str, batches: Sequence[NDArray[Any]]) -> None:
    """Export a module with one input of that name, and compare it with PyTorch on every batch."""
    module.eval()
    try:
        trace(module, batches[:1], path, [name], ["vectors"], {name: {0: "n"}, "vectors": {0: "n"}})
    except OSError:
        raise
    except Exception as failure:  # the exporter's exceptions have no common base of their own
        raise SeesayError(f"cannot be exported to ONNX ({first_line(failure)})") from failure
    session = onnx_session(path, threads=0)
    run = in_pytorch(module, "cpu")
    for batch in batches:
        expected, found = run(batch)[0], session.run(None, {name: batch})[0]
        lengths = np.linalg.norm(expected, axis=1, keepdims=True)
        difference = float(np.abs((found - expected) / np.maximum(lengths, 1e-9)).max())
        if not difference <= TOLERANCE:
            raise SeesayError(f"{path.stem} vectors of ONNX Runtime are {difference:.0e} off PyTorch's")


def _hash_of_tensors(module: nn.Module) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for key, tensor in sorted(module.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
