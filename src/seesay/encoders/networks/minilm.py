"""all-MiniLM-L6-v2 in PyTorch: a plain BERT (Devlin et al. 2019) with mean pooling.

A test compares it with transformers' BertModel.
"""

from __future__ import annotations

import re

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from seesay.encoders.sentences.minilm import DIM, packaged_folder

HEADS = 12
LAYERS = 6


class BertLayer(nn.Module):
    """One post-norm transformer layer: (n, t, 384) to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(DIM, DIM) for _ in range(4))
        self.attention_norm = nn.LayerNorm(DIM, eps=1e-12)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)
        self.norm = nn.LayerNorm(DIM, eps=1e-12)

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        """Apply attention and feed-forward; `bias` (n, 1, 1, t) is 0 at words, very negative at padding."""

        def heads(x: Tensor) -> Tensor:
            return x.view(*x.shape[:2], HEADS, DIM // HEADS).transpose(1, 2)

        query, key, value = heads(self.query(hidden)), heads(self.key(hidden)), heads(self.value(hidden))
        weights = (query @ key.transpose(-1, -2) / (DIM // HEADS) ** 0.5 + bias).softmax(-1)
        mixed = (weights @ value).transpose(1, 2).flatten(2)
        hidden = self.attention_norm(hidden + self.output(mixed))
        out: Tensor = self.norm(hidden + self.down(functional.gelu(self.up(hidden))))
        return out


class MiniLMNetwork(nn.Module):
    """Token ids and mask, both (n, t), to unit sentence vectors (n, 384)."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30522, DIM)
        self.positions = nn.Embedding(512, DIM)
        self.token_types = nn.Embedding(2, DIM)
        self.norm = nn.LayerNorm(DIM, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer() for _ in range(LAYERS))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Average the last layer over the words, L2-normalised."""
        place = torch.cumsum(torch.ones_like(ids), dim=1) - 1
        hidden = self.norm(self.words(ids) + self.positions(place) + self.token_types(torch.zeros_like(ids)))
        bias = ((1 - mask) * -1e9).to(hidden.dtype)[:, None, None, :]
        for layer in self.layers:
            hidden = layer(hidden, bias)
        weight = mask.to(hidden.dtype).unsqueeze(-1)
        return functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=1)


def load_minilm() -> MiniLMNetwork:
    """Load the network with the packaged weights."""
    packaged = load_file(packaged_folder() / "model.safetensors")
    renamed = {
        r"^(bert\.)?(embeddings|encoder)\.": "",
        r"^layer\.": "layers.",
        r"^LayerNorm": "norm",
        r"^(word|position|token_type)_embeddings": r"\1s",
        r"attention\.self\.": "",
        r"attention\.output\.dense": "output",
        r"attention\.output\.LayerNorm": "attention_norm",
        r"intermediate\.dense": "up",
        r"output\.dense": "down",
        r"output\.LayerNorm": "norm",
    }
    network, state = MiniLMNetwork(), {}
    for key, tensor in packaged.items():
        for theirs, ours in renamed.items():
            key = re.sub(theirs, ours, key)
        state[key] = tensor
    network.load_state_dict({key: state[key] for key in network.state_dict()})
    return network.eval()
