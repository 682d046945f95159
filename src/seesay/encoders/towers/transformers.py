"""Towers of transformers: CLIP, SigLIP and other models with image and text features, and vision models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from tokenizers import Regex, Tokenizer, normalizers, processors
from tokenizers.models import Unigram
from torch import Tensor, nn

from seesay.encoders.towers.export import LoadedText, LoadedTowers
from seesay.encoders.towers.preprocessing import Preprocessing
from seesay.encoders.towers.tokens import Ids, Tokens, TokenSettings
from seesay.errors import SeesayError


def load(which: str) -> LoadedTowers:
    """Load a repository of the hub or a folder; weights are read from safetensors only."""
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    quiet: dict[str, Any] = {"trust_remote_code": False}
    model = AutoModel.from_pretrained(which, use_safetensors=True, dtype=torch.float32, **quiet).eval()
    processor = AutoImageProcessor.from_pretrained(which, backend="pil", **quiet)
    text = None
    if hasattr(model, "get_text_features") and hasattr(model, "get_image_features"):
        text = text_of(model, AutoTokenizer.from_pretrained(which, **quiet))
    return LoadedTowers(
        weights=model,
        image=ImageFeatures(model),
        preprocessing=preprocessing_of(processor),
        library_pixels=lambda image: pixels_of(processor, image),
        text=text,
        logit_scale=scale_of(model),
        logit_bias=bias_of(model),
    )


class ImageFeatures(nn.Module):
    """Projected image features, or a vision model's pooled ones."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Images (n, 3, h, w) to vectors (n, d)."""
        encode: Any = getattr(self.model, "get_image_features", self.model)
        return _pooled(encode(pixel_values=images))


class TextFeatures(nn.Module):
    """Projected text features; `masked` is whether the tower receives the padding mask."""

    def __init__(self, model: nn.Module, masked: bool) -> None:
        super().__init__()
        self.model, self.masked = model, masked

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Ids and mask (m, t) to vectors (m, d)."""
        model: Any = self.model
        shown = {"attention_mask": mask} if self.masked else {}
        return _pooled(model.get_text_features(input_ids=ids, **shown))


def _pooled(output: Any) -> Tensor:
    if isinstance(output, Tensor):  # before transformers 5
        return output
    pooled: Tensor | None = getattr(output, "pooler_output", None)
    if pooled is None:
        pooled = output.last_hidden_state[:, 0]
    return pooled.flatten(1)  # some CNNs keep the two pooled axes


def scale_of(model: nn.Module) -> float:
    """Return the factor of a model's cosines; 1 if it has none."""
    scale: Any = getattr(model, "logit_scale", None)
    return 1.0 if scale is None else float(scale.detach().exp())


def bias_of(model: nn.Module) -> float:
    """Return the bias of a model's scaled cosines; 0 if it has none."""
    bias: Any = getattr(model, "logit_bias", None)
    return 0.0 if bias is None else float(bias.detach())


def pixels_of(processor: Any, image: Image.Image) -> NDArray[np.float32]:
    """Prepare an image with an image processor of transformers."""
    return np.asarray(processor(images=image, return_tensors="np")["pixel_values"][0])


def preprocessing_of(processor: Any) -> Preprocessing:
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


def text_of(model: Any, tokenizer: Any) -> LoadedText:
    """Make the text tower of a model with text features."""
    config = model.config.get_text_config()
    # SigLIP has learned from sentences that are filled up to its length, and without a mask.
    fixed = str(model.config.model_type).startswith("siglip")
    masked = not fixed and "attention_mask" in tokenizer.model_input_names
    length = min(tokenizer.model_max_length, config.max_position_embeddings)

    def library_ids(texts: Sequence[str]) -> Ids:
        padding = "max_length" if fixed else True
        made = tokenizer(list(texts), padding=padding, max_length=length, truncation=True)
        return np.asarray(made["input_ids"], np.int64)

    return LoadedText(TextFeatures(model, masked), tokens_of(tokenizer, length, fixed), library_ids)


def tokens_of(tokenizer: Any, length: int, fixed: bool, clean: str = "none", dropped: int = -1) -> Tokens:
    """Extract the vocabulary of a transformers tokenizer."""
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
    """Rebuild a sentencepiece tokenizer, whose sentences are already cleaned and end in </s>."""
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
