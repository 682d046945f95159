"""GVSE (Huang, Long, Wang, AAAI 2019): the uncommon VSE, of generic features of instances and words.

What it learns is how to put together features that are frozen: class probabilities of an image's instances
by an attentional LSTM, a sentence encoder's vector by a linear map. So it can match things that its
training pairs never showed.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher
from seesay.matchers.sentences import Sentences
from seesay.matchers.two_branch import xavier
from seesay.recipes.matchers import UncommonVseSettings


class AttentionalLSTM(nn.Module):
    """Eq. 1: at each of T steps attend to the instances, by the LSTM's state, and feed it their mixture.

    f is a two-way MLP: a matrix for the instance and one for the state, tanh of the sum, a score.

    Args:
        width: F, of an instance.
        dim: H, of the state.
        hidden: of f.
        steps: T.
    """

    def __init__(self, width: int, dim: int, hidden: int, steps: int) -> None:
        super().__init__()
        # Named so that a run on features given as files finds their width.
        self.image_map = xavier(width, hidden)
        self.state_map = nn.Linear(dim, hidden, bias=False)
        self.saliency = nn.Linear(hidden, 1, bias=False)
        self.lstm = nn.LSTMCell(width, dim)
        nn.init.xavier_uniform_(self.lstm.weight_ih)
        nn.init.zeros_(self.lstm.bias_ih)
        nn.init.zeros_(self.lstm.bias_hh)
        self.dim, self.steps = dim, steps

    def forward(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        """Of instances (n, I, F) the state h_T, (n, H), and the saliencies p, (n, T, I)."""
        missing = absent(instances)
        mapped = self.image_map(instances)
        hidden = memory = instances.new_zeros(len(instances), self.dim)
        saliencies = []
        for _ in range(self.steps):
            scores = self.saliency(torch.tanh(mapped + self.state_map(hidden)[:, None]))[..., 0]
            saliencies.append(scores.masked_fill(missing, -torch.inf).softmax(dim=1))
            attended = torch.bmm(saliencies[-1][:, None], instances)[:, 0]
            hidden, memory = self.lstm(attended, (hidden, memory))
        return hidden, torch.stack(saliencies, dim=1)


class UncommonVSE(EmbeddingMatcher):
    """The score is the cosine of image vector v and sentence vector s, both in R^H.

    Instances are brought to the square roots of their numbers and to unit length: of probabilities p that is
    √p, so that small ones count too. One of zeros is none: it fills up the I of an image that has fewer.

    Args:
        settings: of the recipe; with `steps` 0 the image vector is a linear map of the instances' mean.
        image_dim: I · F, the width of the joined instances.
        sentence_dim: of the frozen sentence encoder.
    """

    def __init__(self, settings: UncommonVseSettings, image_dim: int, sentence_dim: int) -> None:
        super().__init__()
        self.instances = settings.instances
        width = split_instances(image_dim, self.instances)
        self.relation = (
            AttentionalLSTM(width, settings.dim, settings.attention, settings.steps)
            if settings.steps
            else None
        )
        self.image_map = None if settings.steps else xavier(width, settings.dim)
        self.sentence_map = xavier(sentence_dim, settings.dim)

    def embed_images(self, images: Tensor) -> Tensor:
        """Unit image vectors, (n, H), from instances laid end to end, (n, I·F)."""
        instances = self._instances(images)
        if self.relation is not None:
            return functional.normalize(self.relation(instances)[0], dim=1)
        assert self.image_map is not None
        there = (~absent(instances)).to(instances.dtype)
        mean = (instances * there[..., None]).sum(dim=1) / there.sum(dim=1, keepdim=True)
        return functional.normalize(self.image_map(mean), dim=1)

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Unit sentence vectors, (m, H)."""
        return functional.normalize(self.sentence_map(sentences.vectors), dim=1)

    def saliencies(self, images: Tensor) -> Tensor:
        """How much each step attends to each instance, p of eq. 1: (n, T, I).

        Raises:
            SeesayError: the matcher models no relation.
        """
        if self.relation is None:
            raise SeesayError("this matcher averages instances; one with matcher.steps attends to them.")
        with torch.inference_mode():
            found: Tensor = self.relation(self._instances(images))[1]
        return found

    def _instances(self, images: Tensor) -> Tensor:
        return described(images, self.instances, self.sentence_map.weight.dtype)


def split_instances(image_dim: int, instances: int) -> int:
    """The width of one of so many instances laid end to end.

    Raises:
        SeesayError: the features are not so many.
    """
    if image_dim % instances:
        raise SeesayError(
            f"matcher.instances: features of {image_dim} numbers are not {instances} instances."
        )
    return image_dim // instances


def described(images: Tensor, instances: int, dtype: torch.dtype) -> Tensor:
    """Instances (n, I, F) of joined ones (n, I·F): square roots of their numbers, in unit length."""
    rows = images.view(len(images), instances, -1).to(dtype)
    return functional.normalize(rows.sign() * rows.abs().sqrt(), dim=2)


def absent(instances: Tensor) -> Tensor:
    """Which of the instances (n, I, F) are padding, (n, I); where all are zeros, none is."""
    empty = (instances == 0).all(dim=2)
    return empty & ~empty.all(dim=1, keepdim=True)
