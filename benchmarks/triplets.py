"""A training step of the embedding network with vectorised triplets, compared with a loop over the pairs.

Both compute eq. 6 with neighbourhood sampling and constraints on the same mini-batch of Flickr8k's size:
500 images with two sentences each, 1,280-d image features, 3,000-d Fisher vectors. The loop handles one
positive pair at a time, with PyTorch's operations within it; a loop over triplets would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks._harness import arguments, report, seconds
from seesay.losses import Relations, TripletLoss
from seesay.losses.triplet import distances
from seesay.matchers.sentences import Sentences
from seesay.matchers.two_branch import TwoBranchEmbedding

IMAGES, PER_IMAGE, IMAGE_DIM, SENTENCE_DIM = 500, 2, 1280, 3000
LOSS = TripletLoss(margin=0.05, top_k=10, lambda4=0.05)

Loss = Callable[[Tensor, Tensor, Relations], Tensor]


def main() -> None:
    """Time the loss alone and the whole step."""
    options = arguments(__doc__ or "").parse_args()
    torch.manual_seed(1)
    owners = torch.arange(IMAGES).repeat(PER_IMAGE)
    relations = Relations.from_owners(torch.arange(IMAGES), owners)
    x = functional.normalize(torch.randn(IMAGES, 512), dim=1)
    y = functional.normalize(torch.randn(len(owners), 512) + 2 * x[owners], dim=1)
    same = float(vectorised(x, y, relations)), float(looped(x, y, relations))
    if abs(same[0] - same[1]) > 1e-4 * abs(same[1]):
        raise SystemExit(f"vectorised {same[0]}, looped {same[1]}: not the same loss")
    # The step comes first: after its large arrays the allocator keeps memory, which favours the loop.
    step = _row("whole training step", _Step(relations))
    alone = _row("loss and its gradient", lambda how: _objective(how, x, y, relations))
    report("triplets", [alone, step], options)


def vectorised(images: Tensor, sentences: Tensor, relations: Relations) -> Tensor:
    value: Tensor = LOSS(images, sentences, relations=relations)
    return value


def looped(images: Tensor, sentences: Tensor, relations: Relations) -> Tensor:
    """Compute eq. 6, one positive pair at a time."""
    total = images.new_zeros(())
    across, within = distances(images, sentences), distances(sentences, sentences)
    one, two, four = LOSS.lambda1, LOSS.lambda2, LOSS.lambda4
    for i, j in relations.matching.nonzero().tolist():
        total = total + one * _hardest(across[i, j], across[i][relations.other_sentences[i]])
        total = total + two * _hardest(across[i, j], across[:, j][relations.other_images[:, j]])
        shared = relations.matching[i].clone()
        shared[j] = False
        for other in shared.nonzero()[:, 0].tolist():
            far = within[j][relations.other_sentences[i]]
            total = total + four * _hardest(within[j, other], far)
    return total / relations.matching.sum()


def _hardest(near: Tensor, far: Tensor) -> Tensor:
    return functional.relu(LOSS.margin + near - far).topk(min(LOSS.top_k, len(far))).values.sum()


def _objective(how: Loss, x: Tensor, y: Tensor, relations: Relations) -> None:
    left, right = x.clone().requires_grad_(), y.clone().requires_grad_()
    how(left, right, relations).backward()  # type: ignore[no-untyped-call]


class _Step:
    """Forward pass, loss, backward pass, Adam."""

    def __init__(self, relations: Relations) -> None:
        self.relations = relations
        self.network = TwoBranchEmbedding(IMAGE_DIM, SENTENCE_DIM)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-4)
        self.features = torch.randn(IMAGES, IMAGE_DIM)
        n = IMAGES * PER_IMAGE
        words = torch.zeros(n, dtype=torch.int64)
        self.sentences = Sentences(words, torch.ones_like(words), torch.randn(n, SENTENCE_DIM) / 50)

    def __call__(self, how: Loss) -> None:
        x = self.network.embed_images(self.features)
        y = self.network.embed_sentences(self.sentences)
        self.optimizer.zero_grad()
        how(x, y, self.relations).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def _row(what: str, work: Callable[[Loss], None]) -> dict[str, Any]:
    fast = seconds(lambda: work(vectorised), 5)
    slow = seconds(lambda: work(looped), 3)
    return {"what": what, "vectorised ms": 1000 * fast, "looped ms": 1000 * slow, "ratio": slow / fast}


if __name__ == "__main__":
    main()
