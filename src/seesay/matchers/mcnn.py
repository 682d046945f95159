"""m-CNN (Ma, Lu, Shang, Li, ICCV 2015): CNNs that match an image with words, phrases or the sentence.

Three convolutions over the sentence, each followed by max-pooling of two, and an MLP with one hidden layer
(Table 1, eq. 2). The level selects which of these four layers receives the image with its window:

    wd   the first convolution: windows of words (eq. 5)
    phs  the second: windows of short phrases, four words each (eq. 8)
    phl  the third: windows of long phrases, ten words each (eq. 8)
    st   the hidden layer: the whole sentence (eq. 9)

That layer is linear before its ReLU, and max-pooling commutes with adding the image's part, which is the
same for both windows. Therefore, everything up to the pooled response to the words is computed once for
each sentence, and the response to the image once for each image; a pair only needs their sum and the later
layers.

Choices where the paper leaves details open:

* Windows lie completely within the 30 positions (eq. 4): 28, pooled to 14; 12, pooled to 6; 4, pooled to 2.
  All are even, and a short phrase spans four words and a long one ten, as in the paper.
* A window is all zeros (eq. 6) if it only contains padding, where the image is padded with zeros, too;
  windows with a word see the image. Windows of padding are left out instead of being computed and gated, so
  padding cannot change a score. A window whose features happen to be all zeros is not gated.
* The joint representation is the concatenation of the last layer's features at both positions.
* Dropout is applied to the inputs of both layers of the MLP. Layers before a ReLU start with the weights of
  He et al. 2015 and zero biases.
* The vector of the unknown word, which represents words that are not in training, starts at zero and is
  trained by word dropout; words without a pretrained vector start at random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Literal, cast

import torch
from pydantic import AfterValidator, PositiveInt, ValidationInfo
from torch import Tensor, nn
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.matchers.base import PairMatcher, Pretrained, check_images
from seesay.matchers.layers import ScoreLayer, Standardise, standardised
from seesay.matchers.sentences import UNKNOWN, SentencesLike, read_words
from seesay.matchers.settings import register_matcher
from seesay.settings import Dropout

Level = Literal["wd", "phs", "phl", "st"]


def _in_four(start: str, info: ValidationInfo) -> str:
    widths = (*info.data.get("maps", ()), info.data.get("hidden", 0))
    if start == "product" and any(width % 4 for width in widths):
        raise ValueError("product needs maps and hidden that are divisible by four")
    return start


Start = Annotated[Literal["random", "product"], AfterValidator(_in_four)]

_PACKAGED = {"glove": 50, "minilm": 384}  # word vectors, and their widths


def _packaged_or_file(name: str) -> str:
    if name not in _PACKAGED and not name.endswith((".txt", ".vec")):
        raise ValueError(f"'{name}' is none of {', '.join(_PACKAGED)}, and no file that ends in .txt or .vec")
    return name


WordVectors = Annotated[str, AfterValidator(_packaged_or_file)]
_DEVIATION = 0.7  # of the components of frequent words in GloVe

MAX_LENGTH = 30  # words; longer sentences are cut
LEVELS = ("wd", "phs", "phl", "st")  # by the number of layers before the one that sees the image
_SPANS = (3, 3, 3, 2)  # positions in a window of each layer; the hidden layer has one window
_PLACES = (30, 14, 6, 2, 1)  # positions before each layer, and after the last
_ABOUT = 4  # words; sentences whose lengths round up to the same multiple are encoded together


@register_matcher("mcnn")
class MatchingCNN(PairMatcher):
    """m-CNN of one level. An encoded sentence consists of its windows' responses, -inf for missing ones.

    Args:
        image_dim: width of the image features.
        vocabulary_size: rows of the word embedding.
        level: the layer at which the image meets the sentence.
        image: width of the image vector.
        maps: feature maps of the three convolutions (Table 1).
        hidden: width of the MLP's hidden layer.
        dropout: in the MLP.
        image_dropout: on the image features.
        standardise: how these are scaled, see `layers.standardised`.
        word_vectors: the initial word vectors: "glove", "minilm", or a text file of word2vec or GloVe.
        start: "random", or "product": initially, the score is close to an inner product of image and windows.
        word_dim: the width of the word vectors, required for a file.

    Example:
        >>> import torch
        >>> from seesay.matchers import MatchingCNN
        >>> matcher = MatchingCNN(image_dim=6, vocabulary_size=10, level="st")
        >>> sentences = (torch.tensor([[5, 2, 9], [7, 1, 0]]), torch.tensor([3, 2]))  # padded ids, lengths
        >>> matcher(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    tunable = True
    max_words = MAX_LENGTH

    def __init__(
        self,
        image_dim: PositiveInt,
        vocabulary_size: PositiveInt,
        level: Level = "wd",
        image: PositiveInt = 256,
        maps: tuple[PositiveInt, PositiveInt, PositiveInt] = (200, 300, 300),
        hidden: PositiveInt = 400,
        dropout: Dropout = 0.1,
        image_dropout: Dropout = 0.0,
        standardise: Standardise = False,
        word_vectors: WordVectors = "glove",
        start: Start = "random",
        word_dim: PositiveInt | None = None,
    ) -> None:
        super().__init__()
        self.image_dim, self.meeting = image_dim, LEVELS.index(level)
        self.word_vectors = word_vectors
        width = _PACKAGED.get(word_vectors, word_dim)
        if width is None or word_dim not in (None, width):
            its = f", {width}" if width else ""
            raise SeesayError(f"word_dim: give the width of the vectors of {word_vectors}{its}.")
        self.words = nn.Embedding(vocabulary_size, width)
        nn.init.normal_(self.words.weight, std=_DEVIATION)
        nn.init.zeros_(self.words.weight[UNKNOWN].detach())
        self.image_map = rectified(image_dim, image)
        widths = pairwise((width, *maps, hidden))
        inputs = [span * width for span, (width, _) in zip(_SPANS, widths, strict=True)]
        inputs[self.meeting] += image
        self.layers = cast(Sequence[nn.Linear], nn.ModuleList(map(rectified, inputs, (*maps, hidden))))
        self.score_map = ScoreLayer(hidden, 1)
        self.dropout = nn.Dropout(dropout)
        self.standard = standardised(image_dim, standardise)
        self.image_dropout = nn.Dropout(image_dropout)
        if start == "product":
            self._start_as_product()

    def prepare(self, pretrained: Pretrained) -> None:
        """Initialise the words with pretrained vectors; words without one stay random.

        Raises:
            SeesayError: the vectors have another width.
        """
        name, width = self.word_vectors, self.words.embedding_dim
        vectors, known = (torch.from_numpy(each) for each in pretrained.word_vectors(name))
        if vectors.shape[1] != width:
            raise SeesayError(f"{name}: has vectors of {vectors.shape[1]} numbers, but word_dim is {width}.")
        if name == "minilm":  # as sentences of one word, whose vectors have a large common part
            vectors = vectors - vectors.mean(dim=0)
            vectors *= _DEVIATION / vectors.std()
        self.words.weight.detach()[1:][known] = vectors[known]

    @torch.no_grad()
    def _start_as_product(self) -> None:
        """Initialise so that the score grows with the inner product of the mapped image and window.

        |a + b| - |a - b| has the sign of a·b, and is small if a or b is. The maps of the meeting layer are
        four quarters with a + b, -a - b, a - b and b - a. In each later layer, the first half of the maps
        averages the positive parts of these differences over the positions of a window, and the second half
        the negative parts. Each component of the product therefore has its own maps up to the score.
        """
        meeting, dim = self.layers[self.meeting].weight, self.image_map.out_features
        quarter = meeting[: len(meeting) // 4].clone()
        words, image = quarter[:, :-dim], quarter[:, -dim:]
        signs = ((1, 1), (-1, -1), (1, -1), (-1, 1))
        meeting.copy_(torch.cat([torch.cat([i * words, j * image], dim=1) for i, j in signs]))
        numbers = len(quarter)  # of the product, each in as many maps
        for number in range(self.meeting + 1, len(_SPANS)):
            weight, span = self.layers[number].weight, _SPANS[number]
            maps, inputs = len(weight), weight.shape[1] // span
            kept = (torch.arange(maps) % (maps // 2) % numbers)[:, None] == torch.arange(inputs) % numbers
            signed = kept * _for_and_against(maps)[:, None] * _for_and_against(inputs)
            weight.copy_(signed.repeat(1, span) / span)
            numbers = maps // 2
        hidden = self.score_map.in_features
        self.score_map.weight.copy_(_for_and_against(hidden)[None] * (4 / hidden) ** 0.5)
        nn.init.zeros_(self.score_map.bias)

    def encode_images(self, images: Tensor) -> Tensor:
        """Return the meeting layer's response to eq. 1, (n, maps), including its bias."""
        check_images(images, self.image_dim, self.image_map.weight)
        vectors = functional.relu(self.image_map(self.image_dropout(self.standard(images))))
        if self.meeting == LEVELS.index("st"):
            vectors = self.dropout(vectors)
        layer = self.layers[self.meeting]
        return functional.linear(vectors, layer.weight[:, -vectors.shape[1] :], layer.bias)

    def encode_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return the pooled responses of the meeting layer's windows, (m, positions, maps)."""
        read = read_words(sentences, self.words.num_embeddings)
        starts = read.lengths.cumsum(0) - read.lengths
        lengths = read.lengths.clamp(max=MAX_LENGTH)
        vectors = self.words(read.words)  # once, as each look-up has a gradient as large as the vocabulary
        last = read.words.shape[0] - 1

        def encode(max_length: int, rows: Tensor) -> Tensor:
            real, places = lengths[rows], torch.arange(max_length, device=starts.device)[:, None]
            inputs = vectors[(starts[rows] + places).clamp(max=last)] * (places < real)[:, :, None]
            for number in range(self.meeting):
                responses = pool(gate(self._convolve(inputs, number), real))
                inputs = functional.relu(responses + self.layers[number].bias)
                real = _pooled(real, number)
            pooled = pool(gate(self._convolve(inputs, self.meeting), real)).transpose(0, 1)
            missing = _PLACES[self.meeting + 1] - pooled.shape[1]
            return functional.pad(pooled, (0, 0, 0, missing), value=-torch.inf)

        if _padded_at_once(lengths):
            return encode(MAX_LENGTH, torch.arange(lengths.shape[0], device=lengths.device))
        # Sentences are grouped by similar lengths: a few large products are faster than many small ones.
        return _together((-(-lengths // _ABOUT) * _ABOUT).clamp(max=MAX_LENGTH), encode)

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the scores (n,) of n encoded images, each with one of n encoded sentences."""

        def score(places: int, rows: Tensor) -> Tensor:
            return self._match(sentences[rows, :places].transpose(0, 1) + images[rows])

        if _padded_at_once(sentences):
            return self._match(sentences.transpose(0, 1) + images, _real_places(sentences))
        return _together(_real_places(sentences), score)

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the score matrix (n, m), for a few sentences with the same number of windows at a time."""
        n = len(images)
        scores = self.empty_scores(images, sentences)
        if not scores.numel():
            return scores.T
        real = _real_places(sentences)
        if _padded_at_once(sentences) and self.training:
            met = sentences.transpose(0, 1)[:, :, None] + images
            return self._match(met.flatten(1, 2), real.repeat_interleave(n)).view(-1, n).T
        for places, alike in _alike(real):
            few = max(self.pairs_at_once(sentences[:1, :places]) // n, 1)
            for rows in torch.split(alike, few):
                met = sentences[rows, :places].transpose(0, 1)[:, :, None] + images
                scores[rows] = self._match(met.flatten(1, 2)).view(-1, n)
        return scores.T

    def _match(self, met: Tensor, real: Tensor | None = None) -> Tensor:
        """Apply the later layers to the pooled sums of the meeting layer, eq. 3 and 7: scores (n,), eq. 2.

        The sums `met` are (positions, n, maps); `real` is the number of positions of each pair, (n,), None
        for all.
        """
        inputs = functional.relu(met)
        for number in range(self.meeting + 1, len(_SPANS)):
            # Bias and ReLU commute with the maximum, and cost half after it.
            responses = self._convolve(inputs, number)
            if real is not None:
                responses, real = gate(responses, real), _pooled(real, number)
            inputs = functional.relu(pool(responses) + self.layers[number].bias)
        scores: Tensor = self.score_map(self.dropout(inputs[0]))[:, 0]
        return scores

    def _convolve(self, inputs: Tensor, number: int) -> Tensor:
        """Return the responses of a layer's windows, without image, bias and ReLU."""
        if number == len(_SPANS) - 1:
            inputs = self.dropout(inputs)
        span = _SPANS[number]
        kernel = self.layers[number].weight[:, : span * inputs.shape[2]]
        return convolve(inputs, kernel, span, _PLACES[number])


def convolve(inputs: Tensor, kernel: Tensor, span: int, places: int) -> Tensor:
    """Return eq. 3 and 4 without bias and ReLU, for all windows that pass the gate of eq. 6.

    Positions are the first dimension: each position of the kernel (maps, span·width) is then one matrix
    product over all sentences, without copies of windows or products of padding. From inputs at real
    positions (real, n, width), the result has those windows within `places` that begin at a real one,
    (windows, n, maps).
    """
    windows = min(len(inputs), places - span + 1)
    first, *others = torch.split(kernel, inputs.shape[2], dim=1)
    responses = functional.linear(inputs[:windows], first)
    for offset, weight in enumerate(others, start=1):
        reach = min(len(inputs) - offset, windows)
        if reach > 0:
            responses[:reach] += functional.linear(inputs[offset : offset + reach], weight)
    return responses


def gate(responses: Tensor, real: Tensor) -> Tensor:
    """Apply eq. 6 to sentences of `real` positions (n,): later windows become -inf, and zero by the ReLU."""
    places = torch.arange(len(responses), device=responses.device)[:, None]
    return responses.masked_fill((places >= real)[:, :, None], -torch.inf)


def pool(responses: Tensor) -> Tensor:
    """Apply eq. 7: the maximum of each two windows, (⌈w/2⌉, n, maps); an odd last one is kept."""
    if len(responses) == 1:
        return responses
    pooled = torch.maximum(responses[:-1:2], responses[1::2])
    return pooled if len(responses) % 2 == 0 else torch.cat([pooled, responses[-1:]])


def _pooled(real: Tensor, number: int) -> Tensor:
    """Return the numbers of real positions (n,) after a layer, given those before it."""
    return (real.clamp(max=_PLACES[number] - _SPANS[number] + 1) + 1) // 2


def _for_and_against(width: int) -> Tensor:
    """Return 1 for the first half of the maps and -1 for the second."""
    return torch.where(torch.arange(width) < width // 2, 1.0, -1.0)


def rectified(width: int, out: int) -> nn.Linear:
    """Return a layer before a ReLU, with normal weights of variance 2/width and zero biases."""
    layer = nn.Linear(width, out)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)
    return layer


def _real_places(sentences: Tensor) -> Tensor:
    """Return the number of positions of each encoded sentence that are not padding, (m,)."""
    return (sentences[:, :, 0] != -torch.inf).sum(dim=1)


def _padded_at_once(sentences: Tensor) -> bool:
    """Return whether all sentences are padded to one length instead of being grouped by length.

    Grouping would wait for the lengths on a GPU, and would fix them in a trace.
    """
    return torch.onnx.is_in_onnx_export() or sentences.is_cuda


def _together(counts: Tensor, compute: Callable[[int, Tensor], Tensor]) -> Tensor:
    """Return the results of `compute` for rows of equal count, in the original order."""
    groups = _alike(counts) or [(1, counts)]  # the result for no rows also needs a shape
    order = torch.cat([rows for _, rows in groups])
    return torch.cat([compute(count, rows) for count, rows in groups])[order.argsort()]


def _alike(counts: Tensor) -> list[tuple[int, Tensor]]:
    """Return each count with its rows."""
    values, sizes = torch.unique(counts, return_counts=True)
    rows = torch.split(counts.argsort(stable=True), sizes.tolist())
    return list(zip(values.tolist(), rows, strict=True))
