"""Training: from a recipe and a corpus to a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.encoders.images.concepts import keep_concepts, save_head_inputs
from seesay.encoders.sentences.base import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from seesay.errors import SeesayError
from seesay.paths import replace_text, replacing
from seesay.recipes.load import dump_recipe, is_same, read_recipe
from seesay.recipes.matchers import ComposedSettings
from seesay.recipes.schema import CorrelationSettings, Recipe
from seesay.runs.run import (
    RECIPE,
    TEXT,
    VOCABULARY,
    WEIGHTS,
    Run,
    default_device,
    new_matcher,
    run_recipe,
)
from seesay.runs.text_inputs import fitted_sentence_encoder
from seesay.text.concepts import FILE as CONCEPTS
from seesay.text.vocabulary import Vocabulary
from seesay.training import checkpoint
from seesay.training.closed_form import solve
from seesay.training.composed import MEMBERS, train_composed
from seesay.training.concept_task import learned_words
from seesay.training.loop import Loop
from seesay.training.metrics import draw_curves
from seesay.training.runs import write_report
from seesay.training.task import Task, task_of


def train(recipe: Recipe, corpus: Corpus | PhraseCorpus, out: Path, resume: bool = False) -> Run:
    """Train the recipe's matcher on the corpus's train split and keep the epoch that val likes best.

    With `resume` a run goes on behind its last finished epoch, and ends with the weights that it
    would have had without the interruption, bit for bit. A composed matcher's members are trained one after
    the other, in `out/members`.

    Raises:
        SeesayError: `out` holds a run already, or one of another recipe is to be resumed; the recipe
            is for another kind of corpus.
    """
    _check_folder(recipe, out, resume)
    if isinstance(recipe.matcher, ComposedSettings):
        return train_composed(recipe, corpus, out, train)
    if resume and (out / RECIPE).is_file():
        recipe = run_recipe(out)  # which names the encoders that the run keeps
    split = corpus.split("train")
    vocabulary, concepts = learned_words(recipe, split.texts())
    _check_vocabulary(vocabulary, corpus, out)
    encoder = _sentence_encoder(recipe, split, out if resume else None)
    task = task_of(recipe, corpus, vocabulary, encoder)
    torch.manual_seed(recipe.seed)
    matcher = new_matcher(recipe, vocabulary, encoder, task.image_dim)
    matcher.prepare(vocabulary)
    # Written only now: a corpus that cannot be trained on leaves no folder in the way.
    out.mkdir(parents=True, exist_ok=True)
    kept = tuple(keep_concepts(name, out) for name in recipe.encoders)
    recipe = recipe.model_copy(update={"encoders": kept})
    replace_text(out / RECIPE, dump_recipe(recipe))
    vocabulary.save(out / VOCABULARY)
    if concepts is not None:
        concepts.save(out / CONCEPTS)
        save_head_inputs(out, recipe.encoders[0], recipe.arrays)
    if encoder is not None:
        save_sentence_encoder(encoder, out / TEXT)
    run = Run(str(out), out, recipe, vocabulary, encoder, matcher.to(default_device()))
    if isinstance(recipe.loss, CorrelationSettings):
        best, history = solve(task, run)
    else:
        loop = Loop(task, run)
        if resume and (out / checkpoint.FILE).is_file():
            loop.restore()
        best, history = loop.run()
    _finish(run, corpus, task, best, history)
    return Run.load(str(out))


def _finish(
    run: Run,
    corpus: Corpus | PhraseCorpus,
    task: Task,
    best: dict[str, Tensor],
    history: list[dict[str, Any]],
) -> None:
    """The best weights become the run's; curves and the report stand beside them."""
    with replacing(run.folder / WEIGHTS) as beside:
        save_file({key: value.contiguous() for key, value in best.items()}, beside)
    draw_curves(history, run.folder)
    write_report(run, corpus, task, history)


def _sentence_encoder(
    recipe: Recipe, split: Corpus | PhraseCorpus, resumed: Path | None
) -> SentenceEncoder | None:
    """The recipe's; a resumed run's own, since what is fitted again may differ: PCA's axes have no sign."""
    if resumed is not None and recipe.sentence_encoder is not None and (resumed / TEXT).is_file():
        return load_sentence_encoder(recipe.sentence_encoder, resumed / TEXT)
    owners = split.image_of_sentence() if isinstance(split, Corpus) else split.image_of_phrase()
    return fitted_sentence_encoder(recipe, split.texts(), owners)


def _check_folder(recipe: Recipe, out: Path, resume: bool) -> None:
    begun = (out / RECIPE).exists()
    if not begun and not (out / MEMBERS).exists():
        if resume:
            raise SeesayError(f"{out}: nothing to resume there; leave --resume away to start.")
        return
    if not resume:
        raise SeesayError(f"{out}: holds a run already; choose another --out, or --resume it.")
    if begun and not is_same(read_recipe(out / RECIPE), recipe):
        raise SeesayError(f"{out / RECIPE}: another recipe was trained there; choose another --out.")


def _check_vocabulary(vocabulary: Vocabulary, corpus: Corpus | PhraseCorpus, out: Path) -> None:
    if (out / VOCABULARY).exists() and Vocabulary.load(out / VOCABULARY).words != vocabulary.words:
        raise SeesayError(
            f"{out}: was trained on other sentences than those of {corpus.root}; choose another --out."
        )
