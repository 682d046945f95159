"""Matchers of runs in PyTorch: creation, saving, loading, and the backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from seesay.arrays import Vectors
from seesay.device import checked_device
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, PairMatcher
from seesay.matchers.settings import MATCHERS, MatcherInputs, MatcherSettings
from seesay.paths import replacing, unusable
from seesay.recipes.schema import Recipe
from seesay.runs.config import RunConfig
from seesay.runs.folder import RUN, WEIGHTS
from seesay.runs.prepare import PreparedSentences
from seesay.text.vocabulary import Vocabulary

_BATCH = 512  # images or sentences computed at a time
_NAMED = 3  # weights that an error names


def new_matcher(
    recipe: Recipe, vocabulary: Vocabulary, encoder: SentenceEncoder | None, image_dims: Sequence[int]
) -> nn.Module:
    """Build the recipe's matcher with initial weights."""
    inputs = MatcherInputs(tuple(image_dims), len(vocabulary), encoder.dim if encoder else 0)
    return recipe.matcher.build(inputs)


def load_matcher(folder: Path, config: RunConfig, vocabulary_size: int, device: str) -> nn.Module:
    """Load the matcher of a run's folder onto a device.

    Raises:
        SeesayError: its settings are not allowed, the weights are missing, damaged or of another matcher, or
            the device does not exist.
    """
    path = folder / WEIGHTS
    weights = _read_weights(path)
    try:
        settings = cast(MatcherSettings, MATCHERS.parse(config.matcher))
    except SeesayError as failure:
        raise SeesayError(f"{folder / RUN}: key 'matcher': {failure}") from failure
    matcher = settings.build(MatcherInputs(config.image_dims, vocabulary_size, config.sentence_dim))
    try:
        matcher.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in weights.items()})
    except RuntimeError as failure:
        why = misfit(matcher.state_dict(), weights)
        raise SeesayError(f"{path}: not the weights of {folder / RUN} ({why}); train again.") from failure
    return matcher.eval().to(checked_device(device))


def config_of(recipe: Recipe, matcher: nn.Module, image_dims: Sequence[int], sentence_dim: int) -> RunConfig:
    """Return the `run.json` of a run that is not exported yet."""
    return RunConfig(
        name=recipe.name,
        matcher=recipe.matcher.model_dump(mode="json"),
        encoders=recipe.encoders,
        arrays=recipe.arrays,
        sentence_encoder=recipe.sentence_encoder,
        regions=None if recipe.regions is None else recipe.regions.model_dump(mode="json"),
        image_dims=tuple(image_dims),
        sentence_dim=sentence_dim,
        embeds=isinstance(matcher, EmbeddingMatcher),
        asymmetric=isinstance(matcher, EmbeddingMatcher) and matcher.asymmetric,
        predicts_concepts=recipe.matcher.predicts_concepts,
        instances=recipe.matcher.instances_per_image,
        max_words=recipe.matcher.max_words,
    )


def save_weights(folder: Path, weights: Mapping[str, Tensor]) -> None:
    """Write a matcher's weights."""
    with replacing(folder / WEIGHTS) as beside:
        save_file({key: value.contiguous() for key, value in weights.items()}, beside)


def misfit(wanted: Mapping[str, Any], found: Mapping[str, Tensor]) -> str:
    """Name the first weights that are missing, unexpected or of another shape."""
    left, right = ({key: tuple(np.shape(each)) for key, each in some.items()} for some in (wanted, found))
    differ = [key for key in {**left, **right} if left.get(key) != right.get(key)]
    first = (f"{key} is {right.get(key, 'missing')}, not {left.get(key, 'there')}" for key in differ[:_NAMED])
    return "; ".join(first) + (", …" if len(differ) > _NAMED else "")


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, "pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except FileNotFoundError as failure:
        raise SeesayError(f"{path}: missing; copy it, or finish the training with --resume.") from failure
    except (OSError, SafetensorError) as failure:
        raise unusable(path, failure, f"unreadable weights ({failure}); train again.") from failure


class TorchBackend:
    """The counterpart of `OnnxBackend` that uses a matcher in PyTorch, in evaluation mode, on that device."""

    def __init__(self, matcher: nn.Module, device: str) -> None:
        self.matcher, self._device = matcher, device

    def encode_images(self, features: Vectors, query: bool = False) -> Any:
        """See `OnnxBackend`."""
        parts = (part.float() for part in torch.split(torch.from_numpy(features), _BATCH))
        return self._encoded("images", parts, query)

    def encode_sentences(self, sentences: PreparedSentences, query: bool = False) -> Any:
        """See `OnnxBackend`."""
        return self._encoded("sentences", (part.to_tensors() for part in sentences.split(_BATCH)), query)

    @torch.inference_mode()
    def score_encoded(self, images: Any, sentences: Any) -> NDArray[np.floating]:
        """See `OnnxBackend`; activations are in half precision on a GPU, and scores in single precision."""
        assert isinstance(self.matcher, PairMatcher)
        kind = images.device.type
        precision = half_on_gpu(kind)
        with torch.autocast(kind, precision, enabled=precision != torch.float32):
            scores = self.matcher.score_encoded(images.to(precision), sentences.to(precision))
        return np.asarray(scores.float().cpu().numpy())

    @torch.inference_mode()
    def _encoded(self, side: str, parts: Iterable[Any], query: bool) -> Any:
        """Encode parts of one side, "images" or "sentences": to an array, or for pairs to a tensor."""
        matcher = self.matcher
        if isinstance(matcher, PairMatcher):
            encode = getattr(matcher, f"encode_{side}")
            return torch.cat([encode(part.to(self._device)) for part in parts])
        if not isinstance(matcher, EmbeddingMatcher):
            raise SeesayError(f"{type(matcher).__name__} has no embeddings.")
        embed = getattr(matcher, f"query_{side}" if query else f"embed_{side}")
        return torch.cat([embed(part.to(self._device)).float().cpu() for part in parts]).numpy()


def half_on_gpu(device: str) -> torch.dtype:
    """Return the precision of activations on a kind of device; tests replace it where there is no GPU."""
    return torch.float32 if device == "cpu" else torch.float16
