"""Class evidence: what a classifier sees in an image, against the classes that a sentence may mean.

After ConSE (Norouzi et al. 2014), turned round: there an image becomes a mixture of the class names'
vectors; here a sentence becomes a mixture of classes, so that "kitten" means the cats and no other animal.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 1000  # of ImageNet: the width of the arrays that hold class logits

_SHARPNESS = 10.0  # of the softmax over classes: near to 0 all classes are meant, far above one alone
_TRUST = 0.5  # power of the mixture's length: how much more a name of a class is trusted than a long sentence


class ClassEvidence(nn.Module):
    """Images and sentences as vectors of class shares, (…, 1000). Nothing in it is learned.

    Args:
        sentence_dim: width of the sentence encoder's vectors.
        weight: weight beside other scores if a sentence means a single class.
    """

    def __init__(self, sentence_dim: int, weight: float) -> None:
        super().__init__()
        self.weight = weight
        self.register_buffer("classes", torch.zeros(CLASSES, sentence_dim))
        self.register_buffer("class_mean", torch.zeros(sentence_dim))

    def prepare(self, vectors: Tensor) -> None:
        """Take the classes' unit vectors, (1000, sentence_dim); a saved run carries them."""
        mean = vectors.mean(dim=0)
        self.get_buffer("class_mean").copy_(mean)
        self.get_buffer("classes").copy_(functional.normalize(vectors - mean, dim=1))

    def embed_images(self, logits: list[Tensor]) -> Tensor:
        """Return unit vectors (n, 1000): roots of the probabilities, averaged over the classifiers."""
        return torch.stack([each.softmax(dim=1) for each in logits]).mean(dim=0).sqrt()

    def embed_sentences(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return unit vectors (m, 1000), and the weight (m, 1) of each beside other scores.

        A sentence that means no class in particular is a flat mixture: it gets little weight.
        """
        near = functional.normalize(vectors - self.get_buffer("class_mean"), dim=1)
        shares = (_SHARPNESS * (near @ self.get_buffer("classes").T)).softmax(dim=1)
        lengths = shares.norm(dim=1, keepdim=True)
        return shares / lengths, self.weight * lengths**_TRUST
