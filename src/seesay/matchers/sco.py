"""SCO (Huang, Wu, Song, Wang, CVPR 2018): concepts and context, fused, in the space of a sentence LSTM.

In training, the image vector also generates the matching sentence, so that it learns the order of the
concepts (section 3.3.2, `Decoder`). The concepts are predicted by a multi-label CNN (section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, check_images
from seesay.matchers.layers import (
    Standardise,
    State,
    WordEmbedding,
    WordLSTM,
    image_input,
    instance_width,
    missing_instances,
    normalised_instances,
    run_packed,
    unit_vectors,
    xavier,
)
from seesay.matchers.sentences import UNKNOWN, Sentences, SentencesLike, read_words
from seesay.matchers.settings import MatcherSettings, register_matcher
from seesay.settings import Dropout, NonNegative, Settings

Fusion = Literal["gate", "scaled-gate", "sum", "context", "concepts"]


class GenerationSettings(Settings):
    """Settings of a decoder that generates the matching sentence from the image vector (eq. 3).

    Attributes:
        weight: λ of eq. 4.
        role: "supervision" of the image vector (section 3.3.2), or "sentence": the generated sentence
            represents the image in matching (the ablation ctx + sen).
        sampling: scheduled sampling: the share of true words that are replaced by the decoder's own, which
            grows from 0 in the first epoch to this value in the last.
        shared: whether LSTM and decoder share a word embedding.
    """

    weight: NonNegative = 1.0
    role: Literal["supervision", "sentence"] = "supervision"
    sampling: float = Field(0.0, ge=0, le=1)
    shared: bool = False


class GatedFusion(nn.Module):
    """The gated fusion unit, eq. 2: v = t ⊙ ‖W_l p‖₂ + (1 - t) ⊙ ‖W_g x‖₂ with t = σ(U_l p + U_g x).

    Context x and concept scores p are normalised first. `scaled-gate` is an interpretation: the gate's inputs
    are scaled by the square roots of their widths, so that t differs more from 1/2. `sum` adds the two
    projections; `context` and `concepts` use only one.

    `kind` is the argument `fusion` of `SCO`, and `dim` is H.
    """

    def __init__(self, kind: str, image_dims: Sequence[int], dim: int) -> None:
        super().__init__()
        self.context_dim = {"context": sum(image_dims), "concepts": 0}.get(kind, image_dims[0])
        concepts = sum(image_dims) - self.context_dim
        gated = kind in ("gate", "scaled-gate")
        if (gated or kind == "sum") and not concepts:
            raise SeesayError(
                f"matcher.fusion: '{kind}' joins context and concepts; name their encoders, that of the "
                "context first, or take 'context' or 'concepts' alone."
            )
        self.context = xavier(self.context_dim, dim, bias=False) if kind != "concepts" else None
        self.concepts = xavier(concepts, dim, bias=False) if concepts else None
        self.context_gate = xavier(self.context_dim, dim, bias=False) if gated else None
        self.concept_gate = xavier(concepts, dim, bias=False) if gated else None
        self._scaled = kind == "scaled-gate"

    def forward(self, images: Tensor) -> Tensor:
        """Return image vectors v, (n, H), from joined arrays (n, d)."""
        x = unit_vectors(images[:, : self.context_dim])
        p = unit_vectors(images[:, self.context_dim :])
        if self.concepts is None:
            return _unit(self.context, x)
        if self.context is None:
            return _unit(self.concepts, p)
        concepts, context = _unit(self.concepts, p), _unit(self.context, x)
        if self.context_gate is None or self.concept_gate is None:
            return concepts + context
        if self._scaled:
            p, x = p.shape[1] ** 0.5 * p, x.shape[1] ** 0.5 * x
        t = torch.sigmoid(self.concept_gate(p) + self.context_gate(x))
        return t * concepts + (1 - t) * context


class Decoder(nn.Module):
    """The generative LSTM, eq. 3: a sentence from an image vector.

    The image vector v determines the initial hidden state; the memory starts at zero, which the paper does
    not specify. Eq. 2 combines unit vectors, so each of the H components of v is about 1/√H and outweighed by
    the words of the sentence: an LSTM that starts from v itself hardly learns what the image shows. Here it
    starts from √H·v, whose components are as large as those of later states. The printed output layer,
    softmax(Fᵀh + b), needs word vectors as wide as the hidden state (the paper has D = 300 and H = 1024):
    here a matrix first maps h to R^D, so that F is both word embedding and output layer, as printed.

    Word ids are those of the vocabulary, and one more for a mark that precedes the first word of a sentence
    and follows the last. `table` is Fᵀ, (G, D), whose last row is that of the mark: the decoder's own
    embedding, or the one shared with the sentence encoder. `word_dim` is D, and `dim` H.
    """

    def __init__(self, vocabulary_size: int, word_dim: int, dim: int) -> None:
        super().__init__()
        self.mark = vocabulary_size
        self.lstm = nn.LSTM(word_dim, dim)
        self.projection = nn.Linear(dim, word_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size + 1))

    def loss(self, images: Tensor, sentences: Sentences, table: Tensor, sampling: float = 0.0) -> Tensor:
        """Return L_gen: minus the log-likelihood of a sentence's words and end, averaged over sentences.

        `images` are the image vectors of the sentences, (m, H). With the probability `sampling`, the decoder
        reads its own word instead of the true one.
        """
        framed, targets = self._framed(sentences)
        read = framed.packed(framed.words)
        if sampling:
            read = self.with_own_words(images, read, table, sampling)
        vectors = PackedSequence(functional.embedding(read.data, table), *read[1:])
        states, _ = run_packed(self.lstm, vectors, _first_state(images))
        total = functional.cross_entropy(
            self.logits(states, table).float(), framed.packed(targets).data, reduction="sum"
        )
        return total / len(sentences)

    @torch.no_grad()
    def with_own_words(
        self, images: Tensor, read: PackedSequence, table: Tensor, sampling: float
    ) -> PackedSequence:
        """Replace a share `sampling` of words by the decoder's most likely next words (scheduled sampling).

        No gradient passes through this choice, so all words are chosen first and then read like true ones.
        """
        words, start = read.data.clone(), 0
        order = read.sorted_indices
        state = _first_state(images if order is None else images[order])
        own = words[:0]
        for count in read.batch_sizes.tolist():
            here = words[start : start + count]
            if start:
                chosen = torch.rand(count, device=words.device) < sampling
                here.copy_(torch.where(chosen, own[:count], here))
            logits, state = self.step(here, (state[0][:, :count], state[1][:, :count]), table)
            own = logits.argmax(dim=1)
            start += count
        return PackedSequence(words, *read[1:])

    @torch.no_grad()
    def greedy(self, images: Tensor, table: Tensor, max_length: int) -> Sentences:
        """Generate n sentences of 1 to `max_length` words by always taking the most likely next word."""
        last = torch.full((images.shape[0],), self.mark, dtype=torch.int64, device=images.device)
        state, written = _first_state(images), list[Tensor]()
        ended = torch.zeros_like(last, dtype=torch.bool)
        for place in range(max_length):
            logits, state = self.step(last, state, table)
            logits[:, [UNKNOWN] if place else [UNKNOWN, self.mark]] = -torch.inf
            last = logits.argmax(dim=1)
            ended = ended | (last == self.mark)
            if written and not torch.onnx.is_in_onnx_export() and ended.all():
                break
            written.append(last.masked_fill(ended, self.mark))
        words = torch.stack(written, dim=1)
        there = words != self.mark
        return Sentences(words[there], there.sum(dim=1), images.new_zeros(len(images), 0))

    def step(self, words: Tensor, state: State, table: Tensor) -> tuple[Tensor, State]:
        """Read a word of each of n sentences; return logits of the next, (n, G), and the state (1, n, H)."""
        # Under autocast, states are in half precision after the first step, and inputs must match.
        vectors = functional.embedding(words, table)[None].to(state[0].dtype)
        output, state = self.lstm(vectors, state)
        return self.logits(output[0], table), state

    def logits(self, states: Tensor, table: Tensor) -> Tensor:
        """Return the logits of eq. 3, (n, G), from hidden states (n, H)."""
        return functional.linear(self.projection(states), table, self.bias)

    def _framed(self, sentences: Sentences) -> tuple[Sentences, Tensor]:
        """Return sentences with a leading mark, and the target of each word: the next word, or the mark."""
        lengths = sentences.lengths
        number = torch.arange(len(lengths), device=lengths.device)
        places = torch.arange(len(sentences.words), device=lengths.device)
        words = sentences.words.new_full((len(sentences.words) + len(lengths),), self.mark)
        words[places + torch.repeat_interleave(number, lengths) + 1] = sentences.words
        return Sentences(words, lengths + 1, sentences.vectors), words.roll(-1)


def _first_state(images: Tensor) -> State:
    """Return √H times the image vectors (n, H) as hidden state, and a memory of zeros."""
    hidden = (images * images.shape[1] ** 0.5)[None].contiguous()
    return hidden, torch.zeros_like(hidden)


@register_matcher("sco")
class SCO(EmbeddingMatcher):
    """The score is the cosine of image vector v and sentence vector s, an LSTM's state after the last word.

    Args:
        image_dims: widths of the image's arrays; if `fusion` joins both, the first is of the context, and
            the others are of concept scores.
        vocabulary_size: rows of the word embedding.
        dim: H, width of the embeddings.
        word_dim: D, width of the word embedding.
        max_length: the maximum number of words of a sentence that are read, and of one that is generated.
        fusion: how the image vector combines context and concepts: by the gated fusion unit of eq. 2, which
            reads them at unit length or scaled (`GatedFusion`), as their sum, or only one of them.
        generation: settings of the decoder; None for no decoder.
        standardise: how the image features are scaled, see `layers.standardised`.
        image_dropout: on the image features in training.
        sentence_dropout: on the vectors of words and sentences in training.

    Example:
        >>> import torch
        >>> from seesay.matchers import SCO
        >>> matcher = SCO(image_dims=(6, 5), vocabulary_size=10, dim=16)  # context, concept scores
        >>> sentences = (torch.tensor([[5, 2, 9], [7, 1, 0]]), torch.tensor([3, 2]))  # padded ids, lengths
        >>> matcher(torch.rand(4, 6 + 5), sentences).shape
        torch.Size([4, 2])
    """

    tunable = True

    def __init__(
        self,
        image_dims: Sequence[PositiveInt],
        vocabulary_size: PositiveInt,
        dim: PositiveInt = 1024,
        word_dim: PositiveInt = 300,
        max_length: PositiveInt = 50,
        fusion: Fusion = "gate",
        generation: GenerationSettings | None = None,
        standardise: Standardise = False,
        image_dropout: Dropout = 0.0,
        sentence_dropout: Dropout = 0.0,
    ) -> None:
        super().__init__()
        self.image_dim, self.max_length, self.generation = sum(image_dims), max_length, generation
        self.image_input = image_input(self.image_dim, standardise, image_dropout)
        self.image_map = GatedFusion(fusion, image_dims, dim)
        shared = generation is not None and generation.shared
        words_read = vocabulary_size + 1 if shared else vocabulary_size
        self.reader = WordLSTM(words_read, word_dim, dim, sentence_dropout)
        self.decoder = Decoder(vocabulary_size, word_dim, dim) if generation else None
        own_words = generation is not None and not generation.shared
        self.written_words = WordEmbedding(vocabulary_size + 1, word_dim) if own_words else None
        self._batch: tuple[Tensor, Tensor] | None = None  # the images matched last, and their vectors
        self.matches_by_sentence = generation is not None and generation.role == "sentence"

    @staticmethod
    def generates(settings: Any) -> bool:
        """Return whether there is a decoder, which learns the sentences of images."""
        return settings.generation is not None

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, H), of v or of the sentence that v generates (ctx + sen)."""
        vectors = self._image_vectors(images)
        if self.training and self.generation is not None:
            self._batch = images, vectors  # until the loss of generation is computed
        if self.matches_by_sentence:
            decoder, table = self._decoder()
            return self.embed_sentences(decoder.greedy(vectors, table, self.max_length))
        return unit_vectors(vectors)

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit sentence vectors, (m, H)."""
        return unit_vectors(self.reader(self._read(sentences)))

    def generation_loss(self, images: Tensor, sentences: SentencesLike, progress: float) -> Tensor:
        """Return λ·L_gen of eq. 4, averaged over n images (n, d) with a sentence each.

        The image vectors that were just matched are reused if they are of the same images, so that both
        losses see the same dropout. Scheduled sampling grows with `progress`, from 0 to 1 in the last epoch.

        Raises:
            SeesayError: the matcher has no decoder.
        """
        decoder, table = self._decoder()
        assert self.generation is not None
        sampling = self.generation.sampling * progress
        (matched, vectors), self._batch = self._batch or (None, None), None
        if vectors is None or matched is not images:
            vectors = self._image_vectors(images)
        loss = decoder.loss(vectors, self._read(sentences), table, sampling)
        return self.generation.weight * loss

    @torch.no_grad()
    def metrics(self, images: Tensor, sentences: SentencesLike) -> dict[str, float]:
        """Return L_gen given the matching image and another, which shows how much the decoder uses it."""
        if self.decoder is None:
            return {}
        decoder, table = self._decoder()
        vectors, read = self._image_vectors(images), self._read(sentences)
        shown = {"generation loss": vectors, "generation loss, another image": vectors.roll(1, dims=0)}
        return {name: decoder.loss(each, read, table).item() for name, each in shown.items()}

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the last batch, whose graph cannot be copied."""
        return {**self.__dict__, "_batch": None}

    def _image_vectors(self, images: Tensor) -> Tensor:
        check_images(images, self.image_dim, next(self.image_map.parameters()))
        vectors: Tensor = self.image_map(self.image_input(images))
        return vectors

    def _read(self, sentences: SentencesLike) -> Sentences:
        return read_words(sentences, self.reader.embedding.num_embeddings).truncated(self.max_length)

    def _decoder(self) -> tuple[Decoder, Tensor]:
        if self.decoder is None:
            raise SeesayError("this matcher has no decoder, because its recipe has no matcher.generation.")
        own = self.written_words
        return self.decoder, self.reader.embedding.weight if own is None else own.weight


def _unit(matrix: nn.Linear | None, vectors: Tensor) -> Tensor:
    assert matrix is not None
    return unit_vectors(matrix(vectors))


_RARE = -4.0  # the logit of a concept that one image in 55 shows


class ConceptSettings(MatcherSettings):
    """Additional settings of the concept classifier in a recipe.

    Attributes:
        count: the maximum number of concepts.
        folds: the number of folds of the train images. Each fold is scored by a classifier that was trained
            on the others, and matchers learn from these scores; with 0, the classifier scores all images.
    """

    count: PositiveInt = 256
    folds: NonNegativeInt = 0

    @property
    def concept_count(self) -> int:
        """The maximum number of concepts."""
        return self.count


@register_matcher("concepts", ConceptSettings)
class ConceptClassifier(nn.Module):
    """The output layer of the multi-label CNN: from image features to a logit per concept.

    It does not match sentences; recipes use its scores as an image encoder, `{kind: concepts, run: RUN}`.

    Args:
        image_dim: width of the image features.
        concepts: K.
        hidden: width of a hidden layer with ReLU; 0 for none (the paper tunes the network instead).
        dropout: before the output layer.
        instances: the number of regions whose features are concatenated. Each is classified separately, from
            square roots scaled to variance 1, and the highest logit of a concept counts: multi-instance
            learning, because it is unknown what each region shows.

    Example:
        >>> import torch
        >>> from seesay.matchers import ConceptClassifier
        >>> ConceptClassifier(image_dim=6, concepts=256)(torch.rand(4, 6)).shape
        torch.Size([4, 256])
    """

    reads_words = reads_vectors = False
    tunable = True

    def __init__(
        self,
        image_dim: PositiveInt,
        concepts: PositiveInt,
        hidden: NonNegativeInt = 0,
        dropout: Dropout = 0.0,
        instances: PositiveInt | None = None,
    ) -> None:
        super().__init__()
        self.image_dim, self.concepts, self.instances = image_dim, concepts, instances
        width = instance_width(image_dim, instances) if instances else image_dim
        layers: list[nn.Module] = [nn.Linear(width, hidden), nn.ReLU()] if hidden else []
        output = nn.Linear(hidden or width, concepts)
        if instances:  # the maximum of many logits near zero would predict every concept for every image
            nn.init.constant_(output.bias, _RARE)
        self.layers = nn.Sequential(*layers, nn.Dropout(dropout), output)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, (n, K); their sigmoids are the concepts' scores."""
        weights = next(self.layers.parameters())
        check_images(images, self.image_dim, weights)
        if not self.instances:
            logits: Tensor = self.layers(images)
            return logits
        regions = normalised_instances(images, self.instances, weights.dtype)
        of_regions: Tensor = self.layers(regions * regions.shape[2] ** 0.5)
        return of_regions.masked_fill(missing_instances(regions)[:, :, None], -torch.inf).amax(dim=1)
