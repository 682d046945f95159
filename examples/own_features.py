"""Your features, your training loop, seesay's losses and metrics: two losses compared on the same split.

python examples/own_features.py regions.npy sentences.npy image_of_sentence.npy

`regions` (n, 36, d) are features of each image's regions, `sentences` (m, e) vectors such as BERT's, and
`image_of_sentence` (m,) says for each sentence which image it describes. The last fifth of the images is the
test split.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, Dataset

from seesay.data.corpus import Corpus
from seesay.losses import ContrastiveLoss, SoftMarginLoss
from seesay.metrics import RetrievalMetrics, bootstrap, embedding_ranks, paired_test

EPOCHS = 10


class FeaturePairs(Dataset[tuple[NDArray[np.float32], Any, int]]):
    """An image's features, a sentence and the number of the image, for each of m sentences.

    `images` (n, …) may be memory-mapped; the rows that `image_of_sentence` (m,) names are read one at a time.
    """

    def __init__(self, images: Any, sentences: Any, image_of_sentence: NDArray[np.integer]) -> None:
        self.images, self.sentences, self.image_of_sentence = images, sentences, image_of_sentence

    @classmethod
    def of(cls, corpus: Corpus) -> FeaturePairs:
        """Return the pairs of a corpus, or of a split of it, that has features of its own."""
        rows = np.array([image.row for image in corpus.images])
        return cls(corpus.features, corpus.texts(), rows[corpus.image_of_sentence()])

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, at: int) -> tuple[NDArray[np.float32], Any, int]:
        image = int(self.image_of_sentence[at])
        return np.array(self.images[[image]][0], np.float32), self.sentences[at], image


class Towers(nn.Module):
    """Two linear maps into a common space, and the logarithm of a scale that is learned, as in open_clip."""

    def __init__(self, image_dim: int, sentence_dim: int, dim: int = 256) -> None:
        super().__init__()
        self.image, self.sentence = nn.Linear(image_dim, dim), nn.Linear(sentence_dim, dim)
        self.logit_scale = nn.Parameter(torch.tensor(1 / 0.07).log())

    def forward(self, regions: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor]:
        return normalize(self.image(regions).mean(dim=1), dim=1), normalize(self.sentence(sentences), dim=1)


Loss = Callable[[Towers, Tensor, Tensor], Tensor]  # of scores and of the images' numbers


def contrastive(towers: Towers, scores: Tensor, image_ids: Tensor) -> Tensor:
    loss: Tensor = ContrastiveLoss(scale=1.0)(towers.logit_scale.exp() * scores, image_ids)
    return loss


def soft_margin(_towers: Towers, scores: Tensor, image_ids: Tensor) -> Tensor:
    loss: Tensor = SoftMarginLoss(margin=0.2, top_k=1)(scores, image_ids)  # VSE++'s
    return loss


def image_ranks(name: str, loss_of: Loss, train: FeaturePairs, test: FeaturePairs) -> NDArray[np.int64]:
    """Train, print the metrics on the test split, and return the zero-based rank of each sentence's image."""
    torch.manual_seed(1)
    towers = Towers(train.images.shape[-1], train.sentences.shape[-1])
    optimizer = torch.optim.Adam(towers.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for regions, sentences, image_ids in DataLoader(train, batch_size=128, shuffle=True):
            images, texts = towers(regions, sentences.float())
            loss = loss_of(towers, images @ texts.T, image_ids)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    metrics, found = RetrievalMetrics(), []
    with torch.no_grad():
        for regions, sentences, image_ids in DataLoader(test, batch_size=128):
            images, texts = towers(regions, sentences.float())
            found.append((images, texts, image_ids))
            metrics.update(images, texts, image_ids=image_ids)  # an image may be in several batches
    shown = metrics.compute()
    print(f"{name}: i2t R@1 {shown['S R@1']:.1f}, t2i R@1 {shown['I R@1']:.1f}, rsum {shown['rsum']:.1f}")
    of_pairs, of_texts, owners = (torch.cat(each).numpy() for each in zip(*found, strict=True))
    _, first, places = np.unique(owners, return_index=True, return_inverse=True)
    return embedding_ranks(of_pairs[first], of_texts, places).image


def main(regions: Path, sentences: Path, owners: Path) -> None:
    image_of_sentence = np.load(owners)
    images, texts = np.load(regions, mmap_mode="r"), np.load(sentences, mmap_mode="r")
    of_test = image_of_sentence >= len(images) * 4 // 5
    train, test = (FeaturePairs(images, texts[own], image_of_sentence[own]) for own in (~of_test, of_test))
    losses = {"contrastive": contrastive, "soft margin": soft_margin}
    ours, theirs = (image_ranks(name, loss, train, test) < 10 for name, loss in losses.items())
    # Sentences of one image tend to be found together, so intervals and tests draw whole images.
    low, high = bootstrap(ours, groups=test.image_of_sentence)
    print(f"contrastive: image retrieval R@10, 95 % interval {100 * low:.1f} to {100 * high:.1f}")
    tested = paired_test(ours, theirs, groups=test.image_of_sentence)
    if tested.difference is not None:  # there is at least one query
        print(f"difference from soft margin: {100 * tested.difference:+.1f}, p = {tested.p:.3g}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:4]))
