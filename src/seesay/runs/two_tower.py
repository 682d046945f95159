"""Two-tower models from elsewhere, such as CLIP and SigLIP, as runs: zero-shot, without training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seesay.device import checked_device
from seesay.encoders.images.base import ImageEncoder
from seesay.encoders.towers import TowerName, load_two_tower
from seesay.encoders.towers.two_tower import unit_rows
from seesay.errors import naming_extras
from seesay.runs.backend import Backend, Rows, Vectors, inner_products
from seesay.runs.run import Run
from seesay.runs.sentences import PreparedSentences
from seesay.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch import nn

    from seesay.recipes.schema import Recipe


@dataclass(frozen=True)
class TowerFacts:
    """See `RunFacts`: both towers are encoders of the model's name."""

    name: str
    arrays: tuple[str, ...] = ("pooled",)
    regions: None = None

    @property
    def encoders(self) -> tuple[str, ...]:
        """The image tower."""
        return (self.name,)

    @property
    def sentence_encoder(self) -> str:
        """The text tower."""
        return self.name


class CosineBackend:
    """Unit vectors of what the towers give; see `Backend`.

    Args:
        dim: width of both towers' vectors.
    """

    embeds = True
    asymmetric = False

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def embed_images(self, features: Vectors, query: bool = False) -> Vectors:
        """See `Backend`."""
        del query
        return unit_rows(features)

    def embed_sentences(self, sentences: PreparedSentences, query: bool = False) -> Vectors:
        """See `Backend`."""
        del query
        return unit_rows(sentences.vectors)

    def encode_images(self, features: Vectors) -> Vectors:
        """See `Backend`."""
        return unit_rows(features)

    def encode_sentences(self, sentences: PreparedSentences) -> Vectors:
        """See `Backend`."""
        return unit_rows(sentences.vectors)

    def score_pairs(
        self, images: Vectors, sentences: Vectors, rows: Rows, columns: Rows
    ) -> NDArray[np.floating]:
        """See `Backend`."""
        return inner_products(images, sentences, rows, columns)

    def score_all(self, features: Vectors, sentences: PreparedSentences, keep: bool = False) -> Vectors:
        """See `Backend`."""
        del keep
        return unit_rows(features) @ unit_rows(sentences.vectors).T


class TwoTowerRun(Run):
    """A two-tower model of another library as a run: its embeddings are unit vectors.

    An index ranks by their cosines; `score` gives the model's own logits, which are the cosines times its
    scale plus its bias.

    Args:
        name: LIBRARY:MODEL, such as "open_clip:ViT-B-32/laion2b_s34b_b79k".
        device: where images are encoded; by default a GPU if there is one.

    Raises:
        SeesayError: see `load_two_tower`.
    """

    def __init__(self, name: str, device: str | None = None) -> None:
        parsed = TowerName.parse(name)  # absolute: an index records it, and is searched from anywhere
        device = checked_device(device) if device else None
        self._towers = load_two_tower(str(parsed), device)
        folder = parsed.export_folder()
        super().__init__(str(parsed), folder, Vocabulary([]), self._towers.text, device=device)
        self.logit_scale, self.logit_bias = self._towers.logit_scale, self._towers.logit_bias

    def __repr__(self) -> str:
        """Name the model and the width of its vectors."""
        return f"Run({self.name!r}, dim={self._towers.dim})"

    @property
    def pretrained(self) -> bool:
        """True."""
        return True

    @property
    def title(self) -> str:
        """The model's name."""
        return self.name

    @property
    def facts(self) -> TowerFacts:
        """What the run says of its inputs."""
        return TowerFacts(self.name)

    @cached_property
    def recipe(self) -> Recipe:
        """A recipe of nothing but the towers."""
        from seesay.recipes.schema import Recipe

        facts = self.facts
        return Recipe.model_validate(
            {
                "name": self.name,
                "corpus": "",
                "encoders": facts.encoders,
                "sentence_encoder": facts.sentence_encoder,
                "matcher": {"kind": "cosine"},
                "loss": {"kind": "contrastive", "scale": self.logit_scale},
            }
        )

    @cached_property
    def matcher(self) -> nn.Module:
        """The cosine as a module."""
        with naming_extras():
            from seesay.matchers.cosine import Cosine
        return Cosine(self._towers.dim, self._towers.dim).eval()

    @cached_property
    def backend(self) -> Backend:
        """What computes vectors and scores."""
        return CosineBackend(self._towers.dim)

    @cached_property
    def encoders(self) -> list[ImageEncoder]:
        """The image tower."""
        return [self._towers.image]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of both towers and their preprocessing."""
        return self._towers.fingerprint
