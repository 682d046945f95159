"""Models of open_clip and networks of timm in PyTorch.

Weights are only read from safetensors files, except by timm, which also reads other files with PyTorch's
restricted reader.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from seesay.arrays import Pixels, Vectors
from seesay.data.pixels import middle
from seesay.encoders.images.tuned import tuned_file
from seesay.encoders.networks import in_pytorch
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError, did_you_mean

_AT_ONCE = 16  # images whose activations are in memory: VGG-19's first take 13 MB each
_IN_FOLDERS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors")
# What a configuration may ask of its tokenizer; other settings could make transformers run code.
_OF_TOKENIZERS = {"clean", "strip_sep_token"}
_computing = threading.Lock()  # PyTorch uses all cores for one call


@dataclass(frozen=True)
class ClipModel:
    """Both towers of a model of open_clip on a device; their vectors are not normalised."""

    dim: int  # length of the vectors
    size: int  # the longer side in pixels of the image tower's input
    prepared: Callable[[Pixels], NDArray[Any]]  # its input, (3, height, width), of pixels (h, w, 3)
    encode_images: Callable[[NDArray[Any]], dict[str, Vectors]]  # n of these to "pooled", (n, dim)
    encode_texts: Callable[[Sequence[str]], Vectors]  # m sentences to (m, dim)
    logit_scale: float  # the factor of the cosine, not its logarithm
    logit_bias: float  # what is added to it
    image_fingerprint: str  # of weights and preprocessing
    text_fingerprint: str  # of weights and vocabulary


@lru_cache(maxsize=2)
def load_clip(settings: EncoderSettings, device: str) -> ClipModel:
    """Load a model of open_clip; see `open_clip_model`."""
    import open_clip

    name, weights = _open_clip_source(settings)
    config: dict[str, Any] = open_clip.get_model_config(name) or {}
    for_tokenizer = _refuse_code(settings, config)
    model, transform = open_clip.create_model_from_pretrained(name, **weights, pretrained_hf=False)
    tokenizer = open_clip.get_tokenizer(name, **for_tokenizer)
    vocabulary = getattr(tokenizer, "encoder", None) or tokenizer.tokenizer.get_vocab()
    preprocessing = open_clip.get_model_preprocess_cfg(model)
    digest, size = _hash_of_tensors(model), preprocessing["size"]
    images, texts = (in_pytorch(model, device, call) for call in (model.encode_image, model.encode_text))

    def encode_texts(sentences: Sequence[str]) -> Vectors:
        with _computing:
            return texts(tokenizer(list(sentences)).numpy())[0]

    return ClipModel(
        config["embed_dim"],
        size if isinstance(size, int) else max(size),
        lambda pixels: transform(Image.fromarray(middle(pixels))).numpy(),
        _pooled(images),
        encode_texts,
        float(model.logit_scale.detach().exp()),
        0.0 if model.logit_bias is None else float(model.logit_bias.detach()),
        _hashed(digest, config, preprocessing),
        _hashed(digest, config, sorted(vocabulary.items())),
    )


def _open_clip_source(settings: EncoderSettings) -> tuple[str, dict[str, Any]]:
    """Return open_clip's name of a model, and its weights unless the name implies them."""
    import open_clip
    from open_clip.pretrained import download_pretrained, download_pretrained_from_hf

    def check_safe(file: str) -> None:
        if Path(file).suffix != ".safetensors":
            name = Path(file).name
            raise SeesayError(f"{settings.title}: {name} is no safetensors file; others could run code.")

    model, weights = settings.get("model"), settings.get("weights")
    if Path(model).is_dir():
        check_safe(next((name for name in _IN_FOLDERS if (Path(model) / name).is_file()), "its weights"))
        return f"local-dir:{model}", {}
    if model.startswith("hf-hub:"):
        check_safe(download_pretrained_from_hf(model.removeprefix("hf-hub:")))
        return model, {}
    if model not in (known := open_clip.list_models()):
        raise SeesayError(f"{settings.title}: no architecture '{model}'{did_you_mean(model, known) or '.'}")
    tags = open_clip.list_pretrained_tags_by_model(model)
    if weights not in tags and not Path(weights).is_file():
        near = did_you_mean(weights, tags) or f"; there are {', '.join(tags) or 'none'}."
        raise SeesayError(f"{settings.title}: name its weights, open_clip:{model}/WEIGHTS{near}")
    config = open_clip.get_pretrained_cfg(model, weights)
    check_safe(download_pretrained(config) if weights in tags else weights)
    return model, {"pretrained": weights, "force_quick_gelu": bool(config.get("quick_gelu"))}


def _refuse_code(settings: EncoderSettings, config: dict[str, Any]) -> dict[str, Any]:
    """Check that a model's configuration does not run its own code; return options for the tokenizer."""
    text = config.get("text_cfg") or {}
    if unknown := sorted(set(text.get("tokenizer_kwargs") or {}) - _OF_TOKENIZERS):
        raise SeesayError(
            f"{settings.title}: its tokenizer asks for '{unknown[0]}', which seesay does not know; models "
            "that bring code are rejected."
        )
    if inner := text.get("hf_model_name"):
        from transformers import AutoConfig

        AutoConfig.from_pretrained(inner, trust_remote_code=False)  # open_clip would ask on the terminal
    return {"trust_remote_code": False} if text.get("hf_tokenizer_name") else {}


class TimmNetwork(nn.Module):
    """A network of timm without its classifier: pixels (n, height, width, 3) uint8 to vectors (n, d)."""

    def __init__(self, network: nn.Module) -> None:
        import timm

        super().__init__()
        self.tower = network
        self._config: dict[str, Any] = timm.data.resolve_model_data_config(network)
        self.height, self.width = self._config["input_size"][1:]
        self._transform = timm.data.create_transform(**self._config, is_training=False, normalize=False)
        for name in ("mean", "std"):
            level = torch.tensor(self._config[name]).view(1, 3, 1, 1)
            self.register_buffer(name, level, persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Compute vectors, not normalised."""
        images = pixels.permute(0, 3, 1, 2).float() / 255
        vectors: Tensor = self.tower((images - self.get_buffer("mean")) / self.get_buffer("std"))
        return vectors.flatten(1)

    def cropped(self, pixels: Pixels) -> Pixels:
        """Resize and crop one image (h, w, 3) as timm does, (height, width, 3)."""
        return np.asarray(self._transform(Image.fromarray(middle(pixels))).permute(1, 2, 0).numpy())

    def on(self, device: str) -> Callable[[Pixels], dict[str, Vectors]]:
        """Move the network to a device; return a function of pixels that returns its vectors as "pooled"."""
        return _pooled(in_pytorch(self, device))

    @property
    def fingerprint(self) -> str:
        """A hash of weights and preprocessing."""
        return _hashed(_hash_of_tensors(self.tower), self._config)


def load_timm(settings: EncoderSettings, run: Path | None) -> TimmNetwork:
    """Load a network with published, seeded initial or tuned weights; see `load_timm_network`."""
    import timm

    name, tuned = settings.get("model"), settings.get("tuned")
    with torch.random.fork_rng(devices=[]):  # the caller's random state is unchanged
        torch.default_generator.manual_seed(0)
        pretrained = not tuned and settings.get("weights") != "random"
        network = timm.create_model(name, pretrained=pretrained, num_classes=0)
    if settings.get("layer") == "before-relu":
        hidden: Any = getattr(network, "pre_logits", None)
        if not hasattr(hidden, "act2"):
            raise SeesayError(f"{settings}: layer: before-relu is for VGG networks; it has no such layers.")
        hidden.act2 = nn.Identity()
    module = TimmNetwork(network)
    if tuned:
        path = tuned_file(tuned, run)
        try:
            module.load_state_dict(load_file(path))
        except (RuntimeError, SafetensorError) as failure:
            raise SeesayError(f"{path}: not the weights of {settings.untuned}; train again.") from failure
    return module.eval()


def _pooled(compute: Callable[[NDArray[Any]], list[Vectors]]) -> Callable[[NDArray[Any]], dict[str, Vectors]]:
    """Return a function that computes the vectors of some images at a time, and returns them by name."""

    def run(images: NDArray[Any]) -> dict[str, Vectors]:
        with _computing:
            parts = [compute(images[i : i + _AT_ONCE])[0] for i in range(0, len(images), _AT_ONCE)]
        return {"pooled": np.concatenate(parts)}

    return run


def _hash_of_tensors(module: nn.Module) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for key, tensor in sorted(module.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _hashed(*parts: object) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()
