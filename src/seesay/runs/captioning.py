"""Captioning: the sentences that a run with a decoder writes about an image."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from seesay.encoders.images.encode import encode_images
from seesay.errors import SeesayError
from seesay.matchers.sco import SCO
from seesay.runs.features import join_features
from seesay.runs.run import Run


@dataclass(frozen=True, slots=True)
class WrittenSentence:
    """A generated sentence, and ln P of its words and its end given the image (eq. 3 of SCO)."""

    sentence: str
    log_likelihood: float


def write_sentences(run: Run, data: bytes, name: str, beam: int, count: int) -> list[WrittenSentence]:
    """Generate sentences for an image by beam search, most likely first.

    None is longer than the sentences of the training.

    Args:
        run: a run of a recipe with `matcher.generation`.
        data: the encoded image.
        name: the image's name, for errors.
        beam: width of the beam; at least `count` is used.
        count: the largest number of sentences.

    Raises:
        SeesayError: the run has no decoder, or the image is broken.
    """
    matcher = run.matcher
    if not isinstance(matcher, SCO) or matcher.decoder is None:
        raise SeesayError(
            f"{run.name}: this run has no decoder; use a run of a recipe that learns to generate sentences, "
            "such as sco-ctx-gen or sco-full."
        )
    encoded = encode_images(run.encoders, [data], [name])
    features = torch.from_numpy(join_features(run.config.arrays, encoded.checked())).to(run.device)
    return [
        WrittenSentence(" ".join(run.vocabulary.words[number - 1] for number in numbers), likelihood)
        for numbers, likelihood in matcher.write(features, beam, count)[0]
    ]
