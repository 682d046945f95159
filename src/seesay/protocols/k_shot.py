"""K-shot matching: recalls of the images and sentences that hold a word which training hardly ever saw.

Huang, Long and Wang (AAAI 2019) call a test word uncommon that occurs at most K times in the training
sentences. Their K-shot test set is the sentences that hold such a word, and the images of these; N is the
number of uncommon words ("N indicates the numbers of uncommon words in K-shot test sets").

The queries are those images and sentences, and the candidates the whole split. The paper says only that
part of the test set is selected, but its figures leave no other reading: VSE++, mR 54.6 at K = 0 on COCO,
has 58.9 among all 5,000 images and 79.4 among 1,000, and the images with one of 516 words are fewer still.
As in the standard protocol any sentence of an image answers it. What the selected images and sentences
score among themselves stands beside, as `alone`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.matchers.gvse import GVSE, gate_values
from seesay.metrics.auc import area_under_curve
from seesay.metrics.bootstrap import Answers, intervals
from seesay.metrics.ranks import NO_ANSWER, Ranks
from seesay.metrics.recall import mean_recall, retrieval
from seesay.protocols.retrieval import RanksOfFold
from seesay.results.columns import BY_FREQUENCY, BY_K
from seesay.runs.inputs import Inputs
from seesay.runs.run import Run
from seesay.runs.split_scores import scores_of_run
from seesay.text.rare_words import NO_WORDS, SHOTS, figure_1, rarest_words, uncommon_words, word_counts

K_SHOT = "k-shot"
SHOT = {f"{k}-shot": k for k in SHOTS}  # protocols that are one row of the paper's Table 2

# By how often a sentence's rarest word occurs in training; a sentence without words is of none.
BANDS = {
    "0": (0, 0),
    "1": (1, 1),
    "2-3": (2, 3),
    "4-9": (4, 9),
    "10-99": (10, 99),
    "100+": (100, NO_WORDS - 1),
}

Mask = NDArray[np.bool_]


def train_texts(corpus: Corpus) -> Sequence[str]:
    """The sentences that words are counted in.

    Raises:
        SeesayError: the corpus has no train split.
    """
    if "train" not in {image.split for image in corpus.images}:
        raise SeesayError(
            f"{corpus.root}: no train split there, in which protocol '{K_SHOT}' counts words; "
            "name the corpus of training with --data."
        )
    return corpus.split("train").texts()


def measure_k_shot(
    run: Run, inputs: Inputs, train: Sequence[str], split: str, resamples: int = 0
) -> dict[str, Any]:
    """`k_shot` of a run, and of a gated fusion also `gate AUC`.

    That is how well its t of a `sentence` and of an `image` tells those of K = 3 from the others.

    Args:
        run: of whole images and sentences.
        inputs: the split, prepared for the run.
        train: the training sentences, in which words are counted.
        split: its name, for the record.
        resamples: of the bootstrap intervals; without them there are none.

    Raises:
        SeesayError: a score is NaN.
    """
    found = k_shot(scores_of_run(run, inputs, keep=True).ranks, inputs.corpus, train, split, resamples)
    rarest = rarest_words(inputs.corpus.texts(), word_counts(train))
    of_image = rarest_of_images(rarest, inputs.image_of_sentence, len(inputs.features))
    return found | _gate_auc(run, inputs, of_image <= max(SHOTS), rarest <= max(SHOTS))


def k_shot(
    ranks_of: RanksOfFold, corpus: Corpus, train: Sequence[str], split: str, resamples: int = 0
) -> dict[str, Any]:
    """A split's K-shot test sets, K = 0 to 3, and its recalls by the frequency of the rarest word.

    Args:
        ranks_of: the ranks of any part of the split.
        corpus: the split.
        train: the training sentences, in which words are counted.
        split: its name, for the record.
        resamples: of the bootstrap intervals; without them there are none.

    Returns:
        protocol, split, images, sentences, `words` (see `figure_1`) and two tables. `by K`: for each K what
        `recalls` says, N and `alone`. `by frequency`: what `recalls` says of each band of BANDS, sentences
        and images by their rarest word.

    Raises:
        SeesayError: a score is NaN.
    """
    texts, owners = corpus.texts(), corpus.image_of_sentence()
    counts = word_counts(train)
    rarest = rarest_words(texts, counts)
    of_image = rarest_of_images(rarest, owners, len(corpus.images))
    found = Answers(ranks_of(slice(None), slice(None), owners), owners)
    by_k = {}
    for k in SHOTS:
        chosen = {"N": len(uncommon_words(texts, counts, k))}
        chosen |= recalls(found, of_image <= k, rarest <= k, resamples)
        by_k[str(k)] = chosen | _alone(ranks_of, owners, rarest <= k)
    bands = {
        name: recalls(found, (low <= of_image) & (of_image <= high), (low <= rarest) & (rarest <= high))
        for name, (low, high) in BANDS.items()
    }
    about = {"protocol": K_SHOT, "split": split, "images": len(of_image), "sentences": len(rarest)}
    return about | {"words": figure_1(texts, counts), BY_K: by_k, BY_FREQUENCY: bands}


def one_shot(
    ranks_of: RanksOfFold, corpus: Corpus, train: Sequence[str], split: str, k: int, resamples: int = 0
) -> dict[str, Any]:
    """One K of `k_shot`, as the object of `evaluate_scores`; images and sentences are the queries.

    Raises:
        SeesayError: no word of the split is as uncommon.
    """
    measured: dict[str, Any] = k_shot(ranks_of, corpus, train, split, resamples)[BY_K][str(k)]
    if not measured["N"]:
        raise SeesayError(
            f"protocol '{k}-shot': every word of split '{split}' occurs more often in training."
        )
    return {"protocol": f"{k}-shot", "split": split} | measured


def recalls(found: Answers, images: Mask, sentences: Mask, resamples: int = 0) -> dict[str, Any]:
    """The chosen queries' part of a split's ranks.

    Returns:
        How many `images` and `sentences` were chosen, and where there are some of both `sentence_retrieval`,
        `image_retrieval` and mR, as of `evaluate_scores`; `intervals` with `resamples`.
    """
    counts: dict[str, Any] = {"images": int(images.sum()), "sentences": int(sentences.sum())}
    if not all(counts.values()):
        return counts
    ranks = found.ranks
    sentence, image = retrieval(ranks.sentence[images]), retrieval(ranks.image[sentences])
    ways = {"sentence_retrieval": sentence.as_dict(), "image_retrieval": image.as_dict()}
    counts |= {way: {name: round(value, 3) for name, value in of.items()} for way, of in ways.items()}
    counts["mR"] = round(mean_recall(sentence, image), 3)
    if not resamples:
        return counts
    asked = Ranks(np.where(images, ranks.sentence, NO_ANSWER), np.where(sentences, ranks.image, NO_ANSWER))
    return counts | {"intervals": intervals([Answers(asked, found.owners)], resamples)}


def rarest_of_images(
    rarest: NDArray[np.int64], owners: NDArray[np.int64], n_images: int
) -> NDArray[np.int64]:
    """The frequency of the rarest word that any sentence of an image holds, (n_images,)."""
    of_image = np.full(n_images, NO_WORDS)
    np.minimum.at(of_image, owners, rarest)
    return of_image


def _alone(ranks_of: RanksOfFold, owners: NDArray[np.int64], chosen: Mask) -> dict[str, Any]:
    """The chosen sentences and their images as the only candidates too."""
    if not chosen.any():
        return {}
    sentences = np.flatnonzero(chosen)
    images, own = np.unique(owners[sentences], return_inverse=True)
    among = Answers(ranks_of(images, sentences, own), own)
    return {"alone": recalls(among, np.ones(len(images), bool), np.ones(len(sentences), bool))}


def _gate_auc(run: Run, inputs: Inputs, images: Mask, sentences: Mask) -> dict[str, Any]:
    """How well the gates of a fusion tell the chosen images and sentences; nothing of other matchers."""
    matcher = run.matcher
    if not isinstance(matcher, GVSE) or not matcher.asymmetric:
        return {}
    of_images, of_sentences = gate_values(matcher, inputs.features, inputs.sentences, run.device)
    weights = {"image": (of_images, images), "sentence": (of_sentences, sentences)}
    told = {name: area_under_curve(t, labels) for name, (t, labels) in weights.items()}
    return {"gate AUC": {name: None if auc is None else round(auc, 4) for name, auc in told.items()}}
