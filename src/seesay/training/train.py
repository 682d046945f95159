"""Training: from a recipe and a corpus to a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import torch

from seesay.data.corpus import Corpus
from seesay.device import default_device
from seesay.encoders.sentences.base import TEXT, load_sentence_encoder
from seesay.errors import SeesayError
from seesay.matchers.base import Matcher
from seesay.matchers.layers import CommonLength
from seesay.paths import check_folder, disk_errors, lock_of, locked, read_small_json, sweep
from seesay.recipes.schema import Recipe
from seesay.runs.config import RunConfig
from seesay.runs.folder import RECIPE, RUN, VOCABULARY
from seesay.runs.inputs import fitted_sentence_encoder
from seesay.runs.run import Run
from seesay.runs.summary import is_finished
from seesay.runs.torch_backend import misfit, new_matcher, save_weights
from seesay.text.concepts import FILE as CONCEPTS
from seesay.text.concepts import save_concepts
from seesay.training.composed import MEMBERS, train_composed
from seesay.training.concept_task import ConceptTask, keep_concepts, score_held_out, with_concept_runs
from seesay.training.loop import CHECKPOINT, Callback, Loop, has_epochs, running, solve
from seesay.training.sentence_task import task_for
from seesay.training.summarize import finish, summarize
from seesay.training.task import Task
from seesay.training.words import (
    PretrainedVectors,
    check_recipe,
    check_words,
    learned_words,
    start_words,
    with_own_vectors,
)

_DEPARTURE = "Starts from the weights of"
# Weights that were learned from other inputs may have the right shapes, but another meaning.
_INPUTS = ("encoders", "arrays", "sentence_encoder", "regions")


def train(
    recipe: Recipe,
    corpus: Corpus,
    out: Path,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    start_from: Run | None = None,
) -> Run:
    """Train the recipe's matcher on the train split and keep the epoch that is best on the val split.

    An encoder `concepts` without a run refers to the run `concepts` beside `out`.

    With `resume`, a run continues after its last finished epoch, and ends with exactly the weights of an
    uninterrupted training; a finished run is returned as it is. The members of a composed matcher are trained
    one after the other, in `out/members`.

    Args:
        recipe: the resolved recipe.
        corpus: images and sentences, or phrases with boxes.
        out: the run's folder.
        resume: continue a training of the same recipe.
        callbacks: called when training starts and ends, and after each epoch.
        start_from: a run whose weights are the initial ones; its vocabulary and sentence encoder are kept.

    Raises:
        SeesayError: `out` already contains a run, the run to resume has another recipe, the recipe is for
            another kind of corpus, or its matcher cannot start from that run's weights.
    """
    recipe = with_own_vectors(recipe, corpus)
    if start_from is not None:
        recipe = recipe_from(start_from, recipe)
    with holding(out):
        named = with_concept_runs(recipe, out.parent.joinpath)
        _check_folder(named, out, resume)
        if recipe.matcher.is_composed:
            return train_composed(recipe, corpus, out, partial(train, callbacks=callbacks), callbacks)
        recipe = named
        if resume and (out / RUN).is_file():
            recipe = check_recipe(out, named)  # it names the encoders that the run has stored
            check_start(recipe, named, out)
        if is_finished(out):
            learned = start_from.vocabulary if start_from is not None else None
            check_words(out, learned or learned_words(recipe, corpus.split("train").texts())[0], corpus)
            return Run.load(str(out))
        run, task = _begin(recipe, corpus, out, resume, start_from)
        with running(callbacks, recipe.name, out, recipe.model_dump(mode="json")) as on_epoch_end:
            if recipe.loss.loss_class.closed_form:
                best, history = solve(task, run, on_epoch_end)
            else:
                loop = Loop(task, run, on_epoch_end)
                if resume and (out / CHECKPOINT).is_file():
                    loop.restore()
                best, history = loop.run()
                if isinstance(task, ConceptTask):
                    score_held_out(task, run, loop.state.best_epoch)
        save_weights(out, best)
        summary = summarize(run, corpus, task, history)
        run = Run.load(str(out))
        finish(run, corpus, summary)
        return run


@contextmanager
def holding(out: Path) -> Iterator[None]:
    """Lock a run's folder; newly created folders that stay empty are removed."""
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SeesayError(
            f"{out}: cannot be used for a run ({error.strerror}); choose another folder."
        ) from error
    busy = f"{out}: another process is training this run; wait until it has ended, or choose another folder."
    try:
        with disk_errors(out), locked(lock_of(out), busy):
            sweep(out)
            yield
    finally:
        with suppress(OSError):  # not empty
            for folder in made:
                folder.rmdir()


def _begin(
    recipe: Recipe, corpus: Corpus, out: Path, resume: bool, start_from: Run | None
) -> tuple[Run, Task]:
    """Prepare the task and the matcher, and write the folder except for the weights."""
    split = corpus.split("train")
    vocabulary, concepts = learned_words(recipe, split.texts())
    if start_from is not None:
        vocabulary, encoder = start_from.vocabulary, start_from.sentence_encoder
    elif resume and recipe.sentence_encoder is not None and (out / TEXT).is_file():
        encoder = load_sentence_encoder(recipe.sentence_encoder, out)  # a new fit may flip the signs of axes
    else:
        encoder = fitted_sentence_encoder(recipe, split.texts(), split.image_of_sentence())
    if resume and (out / VOCABULARY).exists():
        check_words(out, vocabulary, corpus)
    task = task_for(recipe, corpus, vocabulary, encoder, out)
    torch.manual_seed(recipe.seed)
    matcher = new_matcher(recipe, vocabulary, encoder, task.image_dims)
    if start_from is not None:
        theirs = start_from.matcher.state_dict()
        try:
            matcher.load_state_dict(theirs)
        except RuntimeError as failure:
            raise SeesayError(
                f"{start_from.name}: its weights do not fit recipe '{recipe.name}' "
                f"({misfit(matcher.state_dict(), theirs)}); take the same recipe and the same sizes."
            ) from failure
    elif isinstance(matcher, Matcher):
        vectors = PretrainedVectors(vocabulary)
        # Computing vectors may draw random numbers, but loading them from the cache does not.
        with torch.random.fork_rng(devices=[]):
            matcher.prepare(vectors)
            start_words(matcher, recipe, vectors)
        for layer in (each for each in matcher.modules() if isinstance(each, CommonLength)):
            layer.measure(features for features, _ in task.pairs())
    # Written only now, so that a corpus that cannot be trained on leaves no folder behind.
    recipe = recipe.model_copy(
        update={"encoders": tuple(keep_concepts(name, out) for name in recipe.encoders)}
    )
    run = Run.from_matcher(out, recipe, vocabulary, encoder, matcher.to(default_device()), task.image_dims)
    run.save_inputs()
    if concepts:
        save_concepts(concepts, out / CONCEPTS)
    return run, task


def can_resume(out: Path) -> bool:
    """Return whether a training has begun in a folder, so that it can be resumed."""
    return any(_begun(out))


def _begun(out: Path) -> Iterator[Path]:
    """Iterate over the folders of runs that were begun: of a run, and of its members."""
    return (file.parent for file in (out / RUN, *out.glob(f"{MEMBERS}/*/{RUN}")) if file.exists())


def check_ours(out: Path) -> None:
    """Check that a folder has no files, or those of a training: at least what it writes before `run.json`.

    Raises:
        SeesayError: there are other files, or a `run.json` that no training wrote.
    """
    check_folder(out, can_resume(out) or _has_only_first_files(out))
    for folder in _begun(out):
        RunConfig.load(folder)


def _has_only_first_files(out: Path) -> bool:
    """Return whether nothing else is there than a training writes before `run.json`, in it or its members."""
    first = {*out.glob(f"{RECIPE}.*.tmp"), *out.glob(f"{RUN}.*.tmp")}
    first.update(out.glob(f"*-{16 * '[0-9a-f]'}.safetensors"))  # heads of concepts, named by their contents
    with suppress(OSError, ValueError):
        if isinstance(found := read_small_json(out / RECIPE), dict) and "matcher" in found:
            first.add(out / RECIPE)
    if (out / MEMBERS).is_dir() and all(map(_has_only_first_files, (out / MEMBERS).iterdir())):
        first.add(out / MEMBERS)
    return out.is_dir() and set(out.glob("*")) <= first


def _check_folder(recipe: Recipe, out: Path, resume: bool) -> None:
    begun, composed = list(_begun(out)), recipe.matcher.is_composed
    if not resume and any(folder != out or has_epochs(out) for folder in begun):
        raise SeesayError(f"{out}: already contains a run; choose another folder, or resume it.")
    if resume and not (begun if composed else out in begun):
        raise SeesayError(f"{out}: there is nothing to resume; omit resume to start a new run.")
    check_ours(out)
    if resume and composed and out in begun and has_epochs(out):
        check_recipe(out, recipe)


def recipe_from(start: Run, recipe: Recipe) -> Recipe:
    """Return the recipe of a training that starts from a run's weights, with a departure that says so.

    Raises:
        SeesayError: the recipe is composed, is solved or learns concepts, or reads other inputs than the run.
    """
    if recipe.matcher.is_composed:
        raise SeesayError(f"Recipe '{recipe.name}' combines runs; start its members from others, one by one.")
    if recipe.loss.loss_class.closed_form or recipe.matcher.predicts_concepts:
        raise SeesayError(
            f"Recipe '{recipe.name}' cannot start from weights: it is solved, or learns concepts."
        )
    for key in _INPUTS:
        mine, theirs = getattr(recipe, key), getattr(start.recipe, key)
        if mine != theirs:
            raise SeesayError(
                f"{start.name}: was trained with '{key}' {theirs}, and recipe '{recipe.name}' has {mine}; "
                "a training can start only from a run with the same inputs."
            )
    departure = f"{_DEPARTURE} {start.recipe.name}, seed {start.recipe.seed} ({start.fingerprint[:8]})."
    return recipe.model_copy(update={"departures": (*recipe.departures, departure)})


def check_start(there: Recipe, asked: Recipe, out: Path) -> None:
    """Raise a `SeesayError` unless a run to resume started from the weights that `recipe_from` was given."""
    started, named = _start_of(there), _start_of(asked)
    if started != named and started is None:
        raise SeesayError(f"{out}: did not start from the weights of another run; omit --from.")
    if started != named:
        other = f", not of {named}" if named else ""
        raise SeesayError(f"{out}: started from the weights of {started}{other}; name that run with --from.")


def _start_of(recipe: Recipe) -> str | None:
    """Return what a training by this recipe started from, such as "mcnn-st, seed 1 (0a1b2c3d)"; or None."""
    lines = [line for line in recipe.departures if line.startswith(_DEPARTURE)]
    return lines[-1].removeprefix(_DEPARTURE).strip(" .") if lines else None
