"""Towers of open_clip: `ARCHITECTURE/WEIGHTS`, `hf-hub:REPOSITORY` or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Regex, Tokenizer, pre_tokenizers, processors
from tokenizers.models import BPE
from torch import Tensor, nn

from seesay.encoders.towers.export import LoadedText, LoadedTowers
from seesay.encoders.towers.timm import preprocessing_of
from seesay.encoders.towers.tokens import Tokens, TokenSettings
from seesay.encoders.towers.transformers import bias_of, scale_of, tokens_of
from seesay.errors import SeesayError, did_you_mean

_IN_FOLDERS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors")
# What a configuration may ask of its tokenizer; others reach transformers, which can be told to run code.
_OF_TOKENIZERS = {"clean", "strip_sep_token"}
# SimpleTokenizer's words.
_WORDS = r"<start_of_text>|<end_of_text>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def load(which: str) -> LoadedTowers:
    """Load both towers; weights are read from safetensors only."""
    import open_clip

    name, options = _source(which)
    for_tokenizer = _refuse_code(name)
    model, _, transform = open_clip.create_model_and_transforms(
        name, **options, require_pretrained=True, pretrained_hf=False
    )
    model.eval()
    tokenizer = open_clip.get_tokenizer(name, **for_tokenizer)
    return LoadedTowers(
        weights=model,
        image=_Features(model, "encode_image"),
        preprocessing=preprocessing_of(transform),
        library_pixels=lambda image: np.asarray(transform(image)),
        text=LoadedText(
            _Features(model, "encode_text"), _tokens(tokenizer), lambda texts: tokenizer(list(texts)).numpy()
        ),
        logit_scale=scale_of(model),
        logit_bias=bias_of(model),
    )


class _Features(nn.Module):
    """Features of images (n, 3, h, w), or of ids (m, t), without their mask."""

    def __init__(self, model: Any, encode: str) -> None:
        super().__init__()
        self.model, self.encode = model, encode

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:  # noqa: ARG002
        features: Tensor = getattr(self.model, self.encode)(inputs)
        return features


def _source(which: str) -> tuple[str, dict[str, Any]]:
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
    """Check that a model's configuration asks for no code of its own; return the tokenizer's settings."""
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


def _tokens(tokenizer: Any) -> Tokens:
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
