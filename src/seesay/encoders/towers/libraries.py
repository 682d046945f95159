"""Models of open_clip, timm and transformers: which files are read, and what prepares their inputs.

- open_clip: `ARCHITECTURE/WEIGHTS` (published weights, or a file), `hf-hub:REPOSITORY` or a folder;
- timm: the name of a vision network; `@random` after it keeps the seeded initial weights, not downloaded;
  `@before-relu` leaves out the last activation function before the classifier of VGG (after fc7); `:ten` at
  the end takes ten crops;
- transformers: a repository of the hub or a folder, of CLIP, SigLIP or another model that has image and text
  features, or of a vision model.

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
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram
from torch import Tensor, nn

from seesay.encoders.images.base import TEN
from seesay.encoders.towers.inputs import Ids, Preprocessing, Tokens, TokenSettings
from seesay.errors import SeesayError, did_you_mean

RANDOM, BEFORE_RELU = "random", "before-relu"  # after the name of a network of timm
_IN_FOLDERS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors")
# What a configuration may ask of its tokenizer; other settings could make transformers run code.
_OF_TOKENIZERS = {"clean", "strip_sep_token"}
# SimpleTokenizer's words.
_WORDS = r"<start_of_text>|<end_of_text>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


@dataclass(frozen=True)
class LoadedText:
    """A text tower, as returned by a library's loader.

    Attributes:
        module: maps ids and mask, both (m, t), to sentence vectors (m, d).
        tokens: makes the ids.
        library_ids: makes them with the library's own code, for comparison.
    """

    module: nn.Module
    tokens: Tokens
    library_ids: Callable[[Sequence[str]], Ids]


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
        changed: what differs from the library's network with these weights, such as "@before-relu".
    """

    weights: nn.Module
    image: nn.Module
    preprocessing: Preprocessing
    library_pixels: Callable[[Image.Image], NDArray[np.float32]]
    text: LoadedText | None = None
    logit_scale: float = 1.0
    logit_bias: float = 0.0
    changed: str = ""


class _Features(nn.Module):
    """The vectors (n, d) that one of a model's methods makes of its inputs."""

    def __init__(self, model: nn.Module, encode: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self.encode = model, encode

    def forward(self, *inputs: Tensor) -> Tensor:
        """Compute vectors, not normalised."""
        output = self.encode(*inputs)
        if isinstance(output, Tensor):
            return output
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        if pooled is None:
            pooled = output.last_hidden_state[:, 0]
        return pooled.flatten(1)  # some CNNs keep the two pooled axes


def load_open_clip(which: str) -> LoadedTowers:
    """Load both towers of an open_clip model."""
    import open_clip

    name, options = _open_clip_source(which)
    for_tokenizer = _refuse_code(name)
    model, _, transform = open_clip.create_model_and_transforms(
        name, **options, require_pretrained=True, pretrained_hf=False
    )
    model.eval()
    tokenizer = open_clip.get_tokenizer(name, **for_tokenizer)
    text = _Features(model, lambda ids, mask: model.encode_text(ids))  # noqa: ARG005
    return LoadedTowers(
        weights=model,
        image=_Features(model, model.encode_image),
        preprocessing=of_transform(transform),
        library_pixels=lambda image: np.asarray(transform(image)),
        text=LoadedText(text, _open_clip_tokens(tokenizer), lambda texts: tokenizer(list(texts)).numpy()),
        **_logits(model),
    )


def load_timm(which: str, pretrained: bool = True) -> LoadedTowers:
    """Load a network of timm without its classifier, with its published or seeded initial weights."""
    import timm

    name = which.removesuffix(f":{TEN}")
    if f":{TEN}@" in name:
        raise SeesayError(f":{TEN} comes last, behind @{RANDOM} and @{BEFORE_RELU}")
    architecture, *options = name.split("@")
    if unknown := set(options) - {RANDOM, BEFORE_RELU}:
        raise SeesayError(f"no option @{min(unknown)}; there are @{RANDOM} and @{BEFORE_RELU}")
    with torch.random.fork_rng(devices=[]):  # the caller's random state is unchanged
        torch.default_generator.manual_seed(0)
        pretrained = pretrained and RANDOM not in options
        module = timm.create_model(architecture, pretrained=pretrained, num_classes=0).eval()
    if BEFORE_RELU in options:
        hidden: Any = getattr(module, "pre_logits", None)
        if not hasattr(hidden, "act2"):
            raise SeesayError(f"@{BEFORE_RELU} is for VGG networks, and {architecture} has no such layers")
        hidden.act2 = nn.Identity()
    config: dict[str, Any] = timm.data.resolve_model_data_config(module)
    transform = timm.data.create_transform(**config, is_training=False)
    preprocessing = replace(of_transform(transform), ten=name != which)
    if preprocessing.ten and len(set(preprocessing.crop)) > 1:
        raise SeesayError(f"ten crops are squares, and {architecture} takes others; leave out :{TEN}")
    return LoadedTowers(
        weights=module,
        image=module,
        preprocessing=preprocessing,
        library_pixels=lambda image: np.asarray(transform(image)),
        changed=f"@{BEFORE_RELU}" if BEFORE_RELU in options else "",
    )


def load_transformers(which: str) -> LoadedTowers:
    """Load a model of transformers."""
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    quiet: dict[str, Any] = {"trust_remote_code": False}
    model: Any = AutoModel.from_pretrained(which, use_safetensors=True, dtype=torch.float32, **quiet).eval()
    processor = AutoImageProcessor.from_pretrained(which, backend="pil", **quiet)
    encode, text = model, None
    if hasattr(model, "get_text_features") and hasattr(model, "get_image_features"):
        encode = model.get_image_features
        text = _transformers_text(model, AutoTokenizer.from_pretrained(which, **quiet))
    return LoadedTowers(
        weights=model,
        image=_Features(model, lambda images: encode(pixel_values=images)),
        preprocessing=of_processor(processor),
        library_pixels=lambda image: pixels_of(processor, image),
        text=text,
        **_logits(model),
    )


LIBRARY_LOADERS: dict[str, Callable[[str], LoadedTowers]] = {
    "open_clip": load_open_clip,
    "timm": load_timm,
    "transformers": load_transformers,
}


def _logits(model: Any) -> dict[str, Any]:
    """The factor and the bias of a model's cosines, where it has them."""
    scale, bias = getattr(model, "logit_scale", None), getattr(model, "logit_bias", None)
    found = {} if scale is None else {"logit_scale": float(scale.detach().exp())}
    return found if bias is None else found | {"logit_bias": float(bias.detach())}


def _open_clip_source(which: str) -> tuple[str, dict[str, Any]]:
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
    architecture, _, weights = which.partition("/")
    if architecture not in open_clip.list_models():
        near = did_you_mean(architecture, open_clip.list_models())
        raise SeesayError(f"no architecture '{architecture}' in open_clip{near}")
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    some = ", ".join(tags[:8]) + (f" and {len(tags) - 8} more" if len(tags) > 8 else "")
    if not weights:
        raise SeesayError(
            f"also name its weights, open_clip:{architecture}/WEIGHTS; there are {some or 'none'}"
        )
    if weights not in tags:
        if not Path(weights).is_file():
            near = did_you_mean(weights, tags) or f"; there are {some or 'none'}"
            raise SeesayError(f"'{weights}' is neither weights of {architecture} nor a file{near}")
        _check_safe(weights)
        return architecture, {"pretrained": weights}
    config = open_clip.get_pretrained_cfg(architecture, weights)
    _check_safe(download_pretrained(config))
    return architecture, {"pretrained": weights, "force_quick_gelu": bool(config.get("quick_gelu"))}


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
        return Tokens(_from_simple(tokenizer), TokenSettings(length, 0, True, clean=clean))
    if tokenizer.tokenizer_mode:
        raise SeesayError(f"its tokenizer has a mode '{tokenizer.tokenizer_mode}' that seesay does not know")
    inner = tokenizer.tokenizer
    dropped = inner.sep_token_id if tokenizer.strip_sep_token else -1
    return tokens_of(inner, length, True, clean, dropped)


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


def _transformers_text(model: Any, tokenizer: Any) -> LoadedText:
    """Make the text tower of a model with text features."""
    config = model.config.get_text_config()
    # SigLIP was trained on sentences that are padded to its length, without a mask.
    fixed = str(model.config.model_type).startswith("siglip")
    masked = not fixed and "attention_mask" in tokenizer.model_input_names
    length = min(tokenizer.model_max_length, config.max_position_embeddings)

    def library_ids(texts: Sequence[str]) -> Ids:
        padding = "max_length" if fixed else True
        made = tokenizer(list(texts), padding=padding, max_length=length, truncation=True)
        return np.asarray(made["input_ids"], np.int64)

    def encode(ids: Tensor, mask: Tensor) -> Any:
        return model.get_text_features(input_ids=ids, **({"attention_mask": mask} if masked else {}))

    return LoadedText(_Features(model, encode), tokens_of(tokenizer, length, fixed), library_ids)


def tokens_of(tokenizer: Any, length: int, fixed: bool, clean: str = "none", dropped: int = -1) -> Tokens:
    """Extract the vocabulary and the settings of a transformers tokenizer."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        copied = Tokenizer.from_str(backend.to_str())
    elif type(tokenizer).__name__ == "SiglipTokenizer":
        copied, clean = _from_sentencepiece(tokenizer), "siglip"
    else:
        raise SeesayError(f"its {type(tokenizer).__name__} has no form that runs without transformers")
    left = tokenizer.padding_side == "left"
    return Tokens(copied, TokenSettings(length, int(tokenizer.pad_token_id), fixed, left, clean, dropped))


def _from_sentencepiece(tokenizer: Any) -> Tokenizer:
    """Rebuild a sentencepiece tokenizer, which takes cleaned sentences and ends them with </s>."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(tokenizer.sp_model.serialized_model_proto())
    vocabulary = [(piece.piece, piece.score) for piece in proto.pieces]
    built = Tokenizer(Unigram(vocabulary, unk_id=proto.trainer_spec.unk_id))
    steps: list[Any] = [normalizers.Replace(Regex(" +"), "▁"), normalizers.Replace(Regex("▁+$"), "")]
    if proto.normalizer_spec.precompiled_charsmap:
        steps.insert(0, normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap))
    built.normalizer = normalizers.Sequence(steps)
    end = (tokenizer.eos_token, tokenizer.eos_token_id)
    built.post_processor = processors.TemplateProcessing(single=f"$A {end[0]}", special_tokens=[end])
    return built


def of_transform(transform: Any) -> Preprocessing:
    """Convert a transform of timm or open_clip; raise SeesayError if a step is unknown."""
    found: dict[str, Any] = {"fill": 0}
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


def pixels_of(processor: Any, image: Image.Image) -> NDArray[np.float32]:
    """Prepare an image with an image processor of transformers."""
    return np.asarray(processor(images=image, return_tensors="np")["pixel_values"][0])


def of_processor(processor: Any) -> Preprocessing:
    """Convert an image processor's settings; raise SeesayError if they are not supported."""
    size = {key: value for key, value in dict(processor.size or {}).items() if value}
    crop = dict(processor.crop_size or {}) if getattr(processor, "do_center_crop", None) else size
    known = set(size) in ({"shortest_edge"}, {"height", "width"}) and {"height", "width"} <= set(crop)
    if not (known and processor.do_resize and not getattr(processor, "do_pad", None)):
        raise SeesayError(
            f"its {type(processor).__name__} prepares images in a way that seesay does not know"
        )
    side = size.get("shortest_edge")
    rescale = 255 * (processor.rescale_factor if processor.do_rescale else 1)
    mean, std = (processor.image_mean, processor.image_std) if processor.do_normalize else ([0] * 3, [1] * 3)
    return Preprocessing(
        resize="shortest" if side else "squash",
        size=(side, side) if side else (size["height"], size["width"]),
        crop=(crop["height"], crop["width"]),
        interpolation=Image.Resampling(int(processor.resample)).name.lower(),
        mean=tuple(float(each) / rescale for each in mean),
        std=tuple(float(each) / rescale for each in std),
        offset="down",
    )
