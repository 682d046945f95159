"""Models of open_clip and networks of timm: which files are read, and what prepares their inputs.

- open_clip: an architecture and its weights (published ones, or a file), `hf-hub:REPOSITORY` or a folder;
- timm: the name of a vision network; see `TimmEncoder`.

Weights are only read from safetensors files, except by timm, which also reads other files with PyTorch's
restricted reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from tokenizers import Regex, Tokenizer, pre_tokenizers, processors
from tokenizers.models import BPE
from torch import Tensor, nn

from seesay.arrays import Ints
from seesay.encoders.images.base import TEN
from seesay.encoders.settings import EncoderSettings
from seesay.encoders.towers.inputs import Preprocessing, Tokens, TokenSettings
from seesay.errors import SeesayError, did_you_mean

BEFORE_RELU = "before-relu"  # the layer of a VGG network
_IN_FOLDERS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors")
# What a configuration may ask of its tokenizer; other settings could make transformers run code.
_OF_TOKENIZERS = {"clean", "strip_sep_token"}
# SimpleTokenizer's words.
_WORDS = r"<start_of_text>|<end_of_text>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


@dataclass(frozen=True)
class LoadedText:
    """A text tower, as returned by `load_open_clip`.

    Attributes:
        module: maps ids (m, t) to sentence vectors (m, d).
        tokens: makes the ids.
        library_ids: makes them with the library's own code, for comparison.
    """

    module: nn.Module
    tokens: Tokens
    library_ids: Callable[[Sequence[str]], Ints]


@dataclass(frozen=True)
class LoadedTowers:
    """An image tower, and its text tower if there is one, as returned by a library's loader.

    Attributes:
        weights: the module with all weights.
        image: maps images (n, 3, h, w), mean and deviation applied, to vectors (n, d).
        preprocessing: makes those images.
        library_pixels: makes one of them, (3, h, w), with the library's own code, for comparison.
        text: the text tower; None if there is none.
        logit_scale: the factor of the cosine, not its logarithm.
        logit_bias: what is added to it.
        changed: what differs from the library's network with these weights, such as "@before-relu"; part of
            fingerprints.
    """

    weights: nn.Module
    image: nn.Module
    preprocessing: Preprocessing
    library_pixels: Callable[[Image.Image], NDArray[np.float32]]
    text: LoadedText | None = None
    logit_scale: float = 1.0
    logit_bias: float = 0.0
    changed: str = ""


class _Tower(nn.Module):
    """The vectors (n, d) that one of a model's methods makes of its input."""

    def __init__(self, model: nn.Module, encode: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.encode = model, encode

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute vectors, not normalised."""
        return self.encode(inputs)


def load_open_clip(model_name: str, weights: str) -> LoadedTowers:
    """Load both towers of an open_clip model; see `OpenClipTextSettings`."""
    import open_clip

    name, options = _open_clip_source(model_name, weights)
    for_tokenizer = _refuse_code(name)
    model, _, transform = open_clip.create_model_and_transforms(
        name, **options, require_pretrained=True, pretrained_hf=False
    )
    model.eval()
    tokenizer = open_clip.get_tokenizer(name, **for_tokenizer)
    text = _Tower(model, model.encode_text)
    return LoadedTowers(
        weights=model,
        image=_Tower(model, model.encode_image),
        preprocessing=of_transform(transform),
        library_pixels=lambda image: np.asarray(transform(image)),
        text=LoadedText(text, _open_clip_tokens(tokenizer), lambda texts: tokenizer(list(texts)).numpy()),
        **_logits(model),
    )


def load_timm(settings: EncoderSettings, pretrained: bool = True) -> LoadedTowers:
    """Load a network of timm without its classifier, with its published or seeded initial weights."""
    import timm

    architecture, before_relu = settings.get("model"), settings.get("layer") == BEFORE_RELU
    with torch.random.fork_rng(devices=[]):  # the caller's random state is unchanged
        torch.default_generator.manual_seed(0)
        pretrained = pretrained and settings.get("weights") != "random"
        module = timm.create_model(architecture, pretrained=pretrained, num_classes=0).eval()
    if before_relu:
        hidden: Any = getattr(module, "pre_logits", None)
        if not hasattr(hidden, "act2"):
            raise SeesayError(f"layer: {BEFORE_RELU} is for VGG networks; {architecture} has no such layers")
        hidden.act2 = nn.Identity()
    config: dict[str, Any] = timm.data.resolve_model_data_config(module)
    transform = timm.data.create_transform(**config, is_training=False)
    preprocessing = replace(of_transform(transform), ten=settings.get("crops") == TEN)
    if preprocessing.ten and len(set(preprocessing.crop)) > 1:
        raise SeesayError(f"ten crops are squares, and {architecture} takes others; leave out crops: {TEN}")
    return LoadedTowers(
        weights=module,
        image=module,
        preprocessing=preprocessing,
        library_pixels=lambda image: np.asarray(transform(image)),
        changed=f"@{BEFORE_RELU}" if before_relu else "",
    )


def _logits(model: Any) -> dict[str, Any]:
    """The factor and the bias of a model's cosines, where it has them."""
    scale, bias = getattr(model, "logit_scale", None), getattr(model, "logit_bias", None)
    found = {} if scale is None else {"logit_scale": float(scale.detach().exp())}
    return found if bias is None else found | {"logit_bias": float(bias.detach())}


def _open_clip_source(which: str, weights: str) -> tuple[str, dict[str, Any]]:
    """Return open_clip's name of a model, and the file of its weights if the name does not imply it."""
    import open_clip
    from open_clip.pretrained import download_pretrained, download_pretrained_from_hf

    if Path(which).is_dir():
        if not any((Path(which) / name).is_file() for name in _IN_FOLDERS):
            raise SeesayError(f"the folder has no {_IN_FOLDERS[0]}; pickled weights are not supported")
        return f"local-dir:{which}", {}
    if which.startswith("hf-hub:"):
        _check_safe(download_pretrained_from_hf(which.removeprefix("hf-hub:")))
        return which, {}
    if which not in open_clip.list_models():
        near = did_you_mean(which, open_clip.list_models())
        raise SeesayError(f"no architecture '{which}' in open_clip{near}")
    tags = open_clip.list_pretrained_tags_by_model(which)
    some = ", ".join(tags[:8]) + (f" and {len(tags) - 8} more" if len(tags) > 8 else "")
    if not weights:
        raise SeesayError(f"also name its weights, open_clip:{which}/WEIGHTS; there are {some or 'none'}")
    if weights not in tags:
        if not Path(weights).is_file():
            near = did_you_mean(weights, tags) or f"; there are {some or 'none'}"
            raise SeesayError(f"'{weights}' is neither weights of {which} nor a file{near}")
        _check_safe(weights)
        return which, {"pretrained": weights}
    config = open_clip.get_pretrained_cfg(which, weights)
    _check_safe(download_pretrained(config))
    return which, {"pretrained": weights, "force_quick_gelu": bool(config.get("quick_gelu"))}


def _refuse_code(name: str) -> dict[str, Any]:
    """Check that a model's configuration does not run its own code; return options for the tokenizer."""
    import open_clip

    text = (open_clip.get_model_config(name) or {}).get("text_cfg") or {}
    if unknown := sorted(set(text.get("tokenizer_kwargs") or {}) - _OF_TOKENIZERS):
        raise SeesayError(
            f"its tokenizer asks for '{unknown[0]}', which seesay does not know; models that bring code "
            f"are rejected"
        )
    if inner := text.get("hf_model_name"):
        from transformers import AutoConfig

        AutoConfig.from_pretrained(inner, trust_remote_code=False)  # open_clip would ask on the terminal
    return {"trust_remote_code": False} if text.get("hf_tokenizer_name") else {}


def _check_safe(file: str) -> None:
    if Path(file).suffix != ".safetensors":
        raise SeesayError(f"{Path(file).name} is not a safetensors file; pickled weights are not supported")


def _open_clip_tokens(tokenizer: Any) -> Tokens:
    """Extract the vocabulary and the settings of an open_clip tokenizer."""
    clean = tokenizer.clean_fn.__name__.removeprefix("_clean_")
    length = int(tokenizer.context_length)
    if hasattr(tokenizer, "encoder"):
        if tokenizer.reduction_fn is not None:
            raise SeesayError("its tokenizer drops words at random; choose another model")
        return Tokens(_from_simple(tokenizer), TokenSettings(length, 0, clean=clean))
    if tokenizer.tokenizer_mode:
        raise SeesayError(f"its tokenizer has a mode '{tokenizer.tokenizer_mode}' that seesay does not know")
    inner = tokenizer.tokenizer  # of transformers
    if (backend := getattr(inner, "backend_tokenizer", None)) is None:
        raise SeesayError(f"its {type(inner).__name__} has no form that runs without transformers")
    dropped = inner.sep_token_id if tokenizer.strip_sep_token else -1
    left = inner.padding_side == "left"
    settings = TokenSettings(length, int(inner.pad_token_id), left, clean, dropped)
    return Tokens(Tokenizer.from_str(backend.to_str()), settings)


def _from_simple(tokenizer: Any) -> Tokenizer:
    merges = sorted(tokenizer.bpe_ranks, key=tokenizer.bpe_ranks.__getitem__)
    built = Tokenizer(BPE(dict(tokenizer.encoder), merges, end_of_word_suffix="</w>"))
    words = pre_tokenizers.Split(Regex(f"(?i:{_WORDS})"), behavior="removed", invert=True)
    bytes_of_words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    built.pre_tokenizer = pre_tokenizers.Sequence([words, bytes_of_words])
    start, end = ((tokenizer.decoder[i], i) for i in (tokenizer.sot_token_id, tokenizer.eot_token_id))
    built.post_processor = processors.TemplateProcessing(
        single=f"{start[0]} $A {end[0]}", special_tokens=[start, end]
    )
    return built


def of_transform(transform: Any) -> Preprocessing:
    """Convert a transform of timm or open_clip; raise SeesayError if a step is unknown."""
    found: dict[str, Any] = {}
    for step in transform.transforms:
        kind = type(step).__name__
        if kind == "Resize":
            found |= _resize(step)
        elif kind == "ResizeKeepRatio":
            found |= {"resize": "contain" if step.longest else "cover", "size": _pair(step.size)}
            found["interpolation"] = _name(step.interpolation)
        elif kind in ("CenterCrop", "CenterCropOrPad"):
            fill = getattr(step, "fill", 0)
            found |= {"crop": _pair(step.size), "fill": tuple(fill) if isinstance(fill, list) else fill}
        elif kind == "Normalize":
            found |= {key: tuple(float(each) for each in getattr(step, key)) for key in ("mean", "std")}
        elif kind not in ("MaybeConvertMode", "MaybeToTensor", "ToTensor", "function"):
            raise SeesayError(f"its preprocessing has a step {kind} that seesay does not know")
    try:
        return Preprocessing(**({"crop": found["size"]} | found))
    except (KeyError, TypeError) as missing:
        raise SeesayError(f"its preprocessing lacks a step: {missing}") from missing


def _resize(step: Any) -> dict[str, Any]:
    squash = not isinstance(step.size, int) and len(step.size) == 2
    if step.max_size is not None:
        raise SeesayError("its preprocessing limits the longer side, which seesay does not know")
    return {
        "resize": "squash" if squash else "shortest",
        "size": _pair(step.size),
        "interpolation": _name(step.interpolation),
    }


def _pair(size: Any) -> tuple[int, int]:
    sides = [size] if isinstance(size, int) else list(size)
    return int(sides[0]), int(sides[-1])


def _name(interpolation: Any) -> str:
    """Name an interpolation, given as a mode of torchvision or as its number in Pillow."""
    if isinstance(interpolation, int):
        return Image.Resampling(interpolation).name.lower()
    return str(getattr(interpolation, "value", interpolation)).lower()
