"""CLIP models of open_clip and image networks of timm, by their names there.

Both libraries are in the extra `hub`. They load the weights and prepare images and sentences. open_clip's are
only read from safetensors files. timm reads other files, too, with PyTorch's restricted reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seesay.arrays import Pixels, Vectors
from seesay.data.pixels import middle
from seesay.device import default_device
from seesay.encoders.images.base import TEN, ImageEncoder
from seesay.encoders.images.tuned import tuned_file
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.encoders.settings import (
    OPEN_CLIP,
    TIMM,
    EncoderSettings,
    hashed,
    register_image_encoder,
    register_sentence_encoder,
)
from seesay.errors import SeesayError, did_you_mean, first_line, naming_extras
from seesay.paths import home_expanded

if TYPE_CHECKING:
    from seesay.encoders.networks import TimmNetwork

_BATCH = 64  # sentences
_IN_FOLDERS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors")
# What a configuration may ask of its tokenizer; other settings could make transformers run code.
_OF_TOKENIZERS = {"clean", "strip_sep_token"}


@register_image_encoder(OPEN_CLIP)
class OpenClipEncoder(ImageEncoder):
    """The image tower of a model of open_clip: "pooled" holds projected vectors, not normalised.

    `model` is an architecture, a folder, or hf-hub:REPOSITORY; `weights` are published ones of an
    architecture, or a file.
    """

    options: ClassVar = {**ImageEncoder.options, "model": (), "weights": ()}
    variants: ClassVar = {"model: NAME, weights: NAME": "any image tower of open_clip; needs seesay[hub]"}

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:  # noqa: ARG003
        model = open_clip_model(settings, device)
        encoder = cls(settings.title, "", model.size, {"pooled": model.dim}, model.encode_images)
        encoder.fingerprint, encoder.prepared = model.image_fingerprint, model.prepared
        return encoder


@register_sentence_encoder(OPEN_CLIP)
class OpenClipSentenceEncoder(SentenceEncoder):
    """The text tower of a model of open_clip: projected vectors, not normalised."""

    options: ClassVar = {"model": (), "weights": ()}
    variants: ClassVar = {"model: NAME, weights: NAME": "any text tower of open_clip; needs seesay[hub]"}

    def __init__(self, model: ClipModel) -> None:
        self.dim, self.fingerprint, self._encode = model.dim, model.text_fingerprint, model.encode_texts

    @classmethod
    def load(cls, settings: EncoderSettings, run: Path | None) -> SentenceEncoder:  # noqa: ARG003
        return cls(open_clip_model(settings, default_device()))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Compute vectors, (m, dim)."""
        starts = range(0, len(texts), _BATCH)
        parts = [self._encode(texts[start : start + _BATCH]) for start in starts]
        return np.concatenate([np.zeros((0, self.dim), np.float32), *parts])


@register_image_encoder(TIMM)
class TimmEncoder(ImageEncoder):
    """An image network of timm.

    `weights: random` keeps the seeded initial weights, and nothing is downloaded. `layer: before-relu` leaves
    out the last activation function before the classifier of VGG, after fc7.
    """

    options: ClassVar = {
        **ImageEncoder.options,
        "model": (),
        "weights": ("published", "random"),
        "layer": ("last", "before-relu"),
        "crops": ("own", TEN),
        "tuned": (),
    }
    variants: ClassVar = {
        "model: NAME": "any image network of timm; needs seesay[hub]",
        "model: NAME, crops: ten": "the same, ten crops averaged (the papers' protocol)",
        "model: VGG, layer: before-relu, crops: ten": "fc7 of a VGG network before its ReLU, ten crops",
    }

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:
        module, crop = load_timm_network(settings, run), settings.get("crops") or "own"
        if crop == TEN and module.height != module.width:
            raise SeesayError(
                f"{settings}: ten crops are squares, and it takes others; leave out crops: {TEN}."
            )
        network = module.on(device)
        dim = network(np.zeros((1, module.height, module.width, 3), np.uint8))["pooled"].shape[1]
        encoder = cls(settings.title, module.fingerprint, module.width, {"pooled": dim}, network, crop)
        encoder.prepared = None if crop == TEN else module.cropped
        return encoder


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
def open_clip_model(settings: EncoderSettings, device: str) -> ClipModel:
    """Load both towers of a model of open_clip onto a device; see `_loading`."""
    with _loading(settings) as settings:
        import open_clip

        from seesay.encoders.networks import computing, hash_of_tensors, in_pytorch, pooled

        name, weights = _open_clip_source(settings)
        config: dict[str, Any] = open_clip.get_model_config(name) or {}
        for_tokenizer = _refuse_code(settings, config)
        model, transform = open_clip.create_model_from_pretrained(name, **weights, pretrained_hf=False)
        tokenizer = open_clip.get_tokenizer(name, **for_tokenizer)
        vocabulary = getattr(tokenizer, "encoder", None) or tokenizer.tokenizer.get_vocab()
        preprocessing = open_clip.get_model_preprocess_cfg(model)
        digest, size = hash_of_tensors(model), preprocessing["size"]
        images, texts = (in_pytorch(model, device, call) for call in (model.encode_image, model.encode_text))

        def encode_texts(sentences: Sequence[str]) -> Vectors:
            with computing, _failures(settings, "read a sentence with"):
                return texts(tokenizer(list(sentences)).numpy())[0]

        return ClipModel(
            config["embed_dim"],
            size if isinstance(size, int) else max(size),
            lambda pixels: transform(Image.fromarray(middle(pixels))).numpy(),
            pooled(images),
            encode_texts,
            float(model.logit_scale.detach().exp()),
            0.0 if model.logit_bias is None else float(model.logit_bias.detach()),
            hashed(digest, config, preprocessing),
            hashed(digest, config, sorted(vocabulary.items())),
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


def load_timm_network(settings: EncoderSettings, run: Path | None = None) -> TimmNetwork:
    """Load a network of timm with published, seeded initial or tuned weights; see `_loading`.

    `run` is the folder of the run that holds tuned weights.
    """
    with _loading(settings) as checked:
        import timm
        import torch

        from seesay.encoders.networks import TimmNetwork, load_tuned

        with torch.random.fork_rng(devices=[]):  # the caller's random state is unchanged
            torch.default_generator.manual_seed(0)
            tuned = settings.get("tuned")
            pretrained = not tuned and settings.get("weights") != "random"
            network = timm.create_model(checked.get("model"), pretrained=pretrained, num_classes=0)
        if settings.get("layer") == "before-relu":
            hidden: Any = getattr(network, "pre_logits", None)
            if not hasattr(hidden, "act2"):
                raise SeesayError(
                    f"{settings}: layer: before-relu is for VGG networks; it has no such layers."
                )
            hidden.act2 = torch.nn.Identity()
        module = TimmNetwork(network)
        if tuned:
            load_tuned(module, tuned_file(tuned, run), str(settings.untuned))
        return module.eval()


def checked_model(settings: EncoderSettings) -> EncoderSettings:
    """Return the settings of a model with absolute paths.

    Raises:
        SeesayError: no model is named, or its folder does not exist.
    """
    if not (model := settings.get("model")):
        raise SeesayError(f"Encoder {settings}: also name its model.")
    if model.startswith((".", "/", "~")) and not home_expanded(model).is_dir():
        raise SeesayError(f"{model}: no such folder; name a folder with a model, or a model of the hub.")
    return settings.absolute


@contextmanager
def _loading(settings: EncoderSettings) -> Iterator[EncoderSettings]:
    """Yield checked settings; whatever a library raises while it loads the model becomes a SeesayError.

    Raises:
        SeesayError: the model does not exist, cannot be loaded, or brings code of its own.
        MissingExtraError: the library is not installed.
    """
    with _failures(settings, "load"), naming_extras(of="hub"):
        yield checked_model(settings)


@contextmanager
def _failures(settings: EncoderSettings, what: str) -> Iterator[None]:
    """Convert whatever a library raises to a SeesayError that names the model and what could not be done."""
    try:
        yield
    except SeesayError:
        raise
    except BaseException as failure:
        # A tokenizer that panics, in Rust, raises what is no Exception and cannot be imported.
        if not (isinstance(failure, Exception) or type(failure).__name__ == "PanicException"):
            raise
        reason = first_line(failure)
        raise SeesayError(
            f"{settings.kind} could not {what} '{settings.get('model')}': {reason}"
        ) from failure
