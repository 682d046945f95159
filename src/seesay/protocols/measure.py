"""Measure a run on prepared inputs, and say what the measured row is a row of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.encoders.images.concepts import CONCEPT_ENCODERS
from seesay.encoders.images.instances import INSTANCES
from seesay.encoders.names import untuned
from seesay.errors import SeesayError
from seesay.metrics.ranks import owners_of
from seesay.protocols.agreement import AGREEMENT, measure_agreement
from seesay.protocols.composition import COMPOSITION, measure_composition
from seesay.protocols.concepts import CONCEPTS, REGIONS, measure_concepts
from seesay.protocols.grounding import Convention, baselines, grounding_recall
from seesay.protocols.image_to_image import IMAGE_TO_IMAGE, image_to_image
from seesay.protocols.k_shot import K_SHOT, SHOT, measure_k_shot, train_texts
from seesay.protocols.people import NOBODY, RELEVANCE, People, judged_by
from seesay.protocols.retrieval import PROTOCOLS, evaluate_folds, protocol_named
from seesay.protocols.scored import Scored, measure_scored
from seesay.protocols.sentence_to_sentence import PROTOCOL, sentence_to_sentence
from seesay.recipes.matchers import concept_settings
from seesay.recipes.schema import Recipe
from seesay.runs.cut import count_cut
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.pair_scores import pairs_of_run
from seesay.runs.phrase_inputs import PhraseInputs, phrase_inputs
from seesay.runs.run import Run
from seesay.runs.split_scores import scores_of_run

GROUNDING = "grounding"


def check_protocol(name: str) -> None:
    """See that there is a protocol of that name, before anything is computed for it.

    Raises:
        SeesayError: there is none.
    """
    names = (*PROTOCOLS, PROTOCOL, *RELEVANCE, COMPOSITION, K_SHOT, *SHOT, CONCEPTS, REGIONS, GROUNDING)
    if name not in names:
        raise SeesayError(f"no protocol '{name}'; there are: {', '.join(names)}.")


def chosen_protocol(recipe: Recipe, name: str | None) -> str:
    """The protocol of that name; without one, what a run of that recipe is measured by.

    Raises:
        SeesayError: there is none of that name.
    """
    if name is not None:
        check_protocol(name)
        return name
    if recipe.regions is not None:
        return GROUNDING
    return CONCEPTS if concept_settings(recipe.matcher) else "standard"


def measure_split(
    run: Run,
    corpus: Corpus | PhraseCorpus,
    split: str,
    protocol: str,
    convention: Convention = "enclosing",
    inclusive: bool = False,
    resamples: int = 0,
    people: People = NOBODY,
) -> dict[str, Any]:
    """A run on a split of a corpus by any protocol, as `seesay evaluate --json` prints it.

    `convention` and `inclusive` are the grounding protocol's; see `grounding_recall`. With `resamples`
    the figures come with their `intervals`; `people` is what agreement is with, see `read_people`.

    Raises:
        SeesayError: no such protocol, or one that does not go with the run or the corpus.
    """
    check_protocol(protocol)
    if protocol == GROUNDING:
        if not isinstance(corpus, PhraseCorpus):
            raise SeesayError(f"{corpus.root}: protocol '{GROUNDING}' needs phrases with boxes.")
        phrases = phrase_inputs(run.recipe, corpus, split, run.vocabulary, run.sentence_encoder)
        measured = measure_phrases(run, phrases, split, convention, inclusive, resamples)
        proposals = [
            phrases.regions[image].boxes[: phrases.proposals[image]]
            for image in phrases.corpus.image_of_phrase()
        ]
        return measured | {"baselines": baselines(proposals, phrases.corpus, convention, inclusive)}
    if isinstance(corpus, PhraseCorpus):
        raise SeesayError(f"{corpus.root}: holds phrases; the protocol for them is '{GROUNDING}'.")
    if convention != "enclosing" or inclusive:
        raise SeesayError(f"--any-box and --extra-pixel compare boxes; protocol '{protocol}' has none.")
    inputs = split_inputs(run.recipe, corpus, split, run.vocabulary, run.sentence_encoder)
    if protocol in (CONCEPTS, REGIONS):
        return measure_concepts(run, inputs, split, protocol, resamples)
    if protocol == PROTOCOL:
        vectors = run.embed_prepared(inputs.sentences)
        return sentence_to_sentence(vectors, inputs.image_of_sentence, resamples) | {"split": split}
    if protocol == IMAGE_TO_IMAGE:
        features = np.asarray(inputs.features)
        asking = run.embed_features(features, query=True)
        return image_to_image(run.embed_features(features), inputs.corpus, split, asking, resamples)
    if protocol == AGREEMENT:
        score_pairs = pairs_of_run(run, inputs)
        judgements = judged_by(people)
        found = measure_agreement(score_pairs, inputs.corpus, judgements, split, resamples)
        return found | _cut(run, inputs)
    if protocol == COMPOSITION:
        return measure_composition(run, inputs, split, resamples=resamples) | _cut(run, inputs)
    if protocol == K_SHOT:
        return measure_k_shot(run, inputs, train_texts(corpus), split, resamples) | _cut(run, inputs)
    scored = score_run(run, inputs, split)
    return measure_scored(scored, protocol, lambda: train_texts(corpus), resamples, people)


def score_run(run: Run, inputs: Inputs, split: str) -> Scored:
    """A split as a run scores it; all pairs of a pair matcher are kept in the cache, see `Run.scores`."""
    return Scored(
        run.folder.name, split, inputs.corpus, scores_of_run(run, inputs, keep=True), _cut(run, inputs)
    )


def measure(run: Run, inputs: Inputs, split: str) -> dict[str, Any]:
    """The recalls of a run's matcher on one split, or on its first images alone."""
    owners = owners_of(inputs.image_of_sentence, len(inputs.features), len(inputs.sentences))
    ranks_of = scores_of_run(run, inputs).ranks
    return evaluate_folds(ranks_of, owners, len(inputs.features), protocol_named("standard"), split)


def _cut(run: Run, inputs: Inputs) -> dict[str, int]:
    """How many sentences the matcher reads the beginning of alone, where there are such."""
    counted = count_cut(run.recipe.matcher, inputs.sentences)
    return counted if counted.get("cut_sentences") else {}


def measure_phrases(
    run: Run,
    inputs: PhraseInputs,
    split: str,
    convention: Convention = "enclosing",
    inclusive: bool = False,
    resamples: int = 0,
) -> dict[str, Any]:
    """Phrase localization of one split: each phrase's proposals ranked by the run's matcher."""
    ranked = rank_proposals(run, inputs)
    recall = grounding_recall(ranked, inputs.corpus.phrases, convention, inclusive, resamples)
    return {"protocol": GROUNDING, "split": split, "images": len(inputs.corpus.images), **recall}


def rank_proposals(run: Run, inputs: PhraseInputs) -> list[NDArray[np.float32]]:
    """For each phrase its image's proposals, best first, (r, 4); equal scores keep the proposals' order."""
    geometry = run.recipe.regions is not None and run.recipe.regions.geometry
    owners = inputs.corpus.image_of_phrase()
    ranked: list[NDArray[np.float32]] = [np.zeros((0, 4), np.float32)] * len(owners)
    order = np.argsort(owners, kind="stable")
    cuts = np.searchsorted(owners[order], np.arange(len(inputs.corpus.images) + 1))
    for image, (start, stop) in enumerate(pairwise(cuts)):
        there = slice(0, int(inputs.proposals[image]))
        boxes = inputs.regions[image].boxes[there]
        if start == stop or not len(boxes):
            continue
        mine = order[start:stop]
        scores = run.scores(
            inputs.features(image, there, geometry), inputs.sentences.take(torch.from_numpy(mine))
        )
        for phrase, column in zip(mine, scores.T, strict=True):
            ranked[phrase] = boxes[np.argsort(-column, kind="stable")]
    return ranked


def provenance(run: Run, seconds: float, commit: str | None) -> dict[str, Any]:
    """What a row of the results needs beside the measures: which run it is of, and how long it took."""
    recipe = run.recipe
    encoder, crops = encoder_and_crops(recipe)
    return {
        "recipe": recipe.name,
        "system": recipe.system,
        "seed": recipe.seed,
        "encoder": encoder,
        "crops": crops,
        "changes": list(recipe.changes),
        "departures": list(recipe.departures),
        "seconds": round(seconds, 1),
        "commit": commit,
    }


_CROPS = {
    "": "squash",
    "mirror": "squash and mirror",
    "ten": "ten crops",
    "roi": "pooled regions",
    "crops": "cropped regions",
}


def encoder_and_crops(recipe: Recipe) -> tuple[str, str]:
    """The recipe's encoders without their crops, and the crops in words.

    Which weights a fine-tuned one has is left out: each seed has its own, and they tell no rows apart.
    Concepts have the crops of their run, and instances are none.
    """
    networks, crops = [], []
    for name in recipe.encoders:
        kind, _, crop = untuned(name).partition(":")
        tuned = name != untuned(name) and kind not in CONCEPT_ENCODERS
        networks.append(kind + " fine-tuned" if tuned else kind)
        if kind not in (*CONCEPT_ENCODERS, INSTANCES):
            crops.append(_CROPS.get(crop, "squash"))
    return "+".join(networks), ", ".join(dict.fromkeys(crops))


def differences(recipe: Recipe) -> list[str]:
    """How a run differs from the published system, in words."""
    return [*recipe.departures, *(f"--set {change}" for change in recipe.changes)]
