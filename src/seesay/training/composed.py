"""Composed matchers: members trained each by its own recipe, then put together as one run.

An ensemble (m-CNN, section 3.2) is no more than that; the gates of a fusion (GVSE) learn when it is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.encoders.images.concepts import save_head_inputs
from seesay.encoders.images.tuned import copy_tuned
from seesay.encoders.names import untuned
from seesay.encoders.sentences.base import save_sentence_encoder
from seesay.errors import SeesayError
from seesay.matchers.ensemble import Ensemble
from seesay.matchers.fusion import MetricFusion
from seesay.paths import replace_text, replacing
from seesay.recipes.load import check_member, dump_recipe, is_same, member_recipes, read_recipe
from seesay.recipes.matchers import ComposedSettings, FineTunedSettings, concept_settings, reads_no_words
from seesay.recipes.schema import Recipe
from seesay.runs.concepts import run_concepts
from seesay.runs.run import RECIPE, TEXT, VOCABULARY, WEIGHTS, Run, default_device, new_matcher
from seesay.text.concepts import FILE as CONCEPTS
from seesay.training.concept_task import ConceptTask, learned_from
from seesay.training.fine_tune import check_tunable, fine_tune
from seesay.training.gate import train_gates
from seesay.training.runs import REPORT, read_report, write_composed_report
from seesay.training.sentence_task import SentenceTask
from seesay.training.task import task_of

MEMBERS = "members"
Train = Callable[[Recipe, Corpus | PhraseCorpus, Path, bool], Run]


def train_composed(recipe: Recipe, corpus: Corpus | PhraseCorpus, out: Path, train: Train) -> Run:
    """Train the members in `out/members`, one after the other, and put them together in `out`.

    Members that are finished there are taken as they are, one that was begun is resumed.

    Args:
        recipe: of the composed matcher.
        corpus: for all members.
        out: its folder.
        train: trains one member; its last argument says whether to resume.

    Raises:
        SeesayError: a member cannot be trained, or its folder holds a run of something else.
    """
    if isinstance(recipe.matcher, FineTunedSettings):
        check_tunable(recipe)  # before the first step is trained for it
    members = []
    for member in member_recipes(recipe):
        folder = out / MEMBERS / member.name
        if (folder / REPORT).is_file():
            members.append(_finished(folder, member, corpus))
        else:
            members.append(train(member, corpus, folder, (folder / RECIPE).is_file()))
    return put_together(recipe, members, corpus, out)


def put_together(recipe: Recipe, members: Sequence[Run], corpus: Corpus | PhraseCorpus, out: Path) -> Run:
    """One run in `out` of the members' weights, which needs their folders no more; measured on val.

    Args:
        recipe: of the composed matcher.
        members: finished runs, in the recipe's order.
        corpus: that they were trained on.
        out: its folder; what is there of a composed matcher is replaced.

    Raises:
        SeesayError: the members do not go together.
    """
    _check_members(recipe, members)
    recipe = _with_tuned_encoders(recipe, members)
    vocabulary = _readers(members)[0].vocabulary
    encoder = next((m.sentence_encoder for m in members if m.sentence_encoder is not None), None)
    task = task_of(recipe, corpus, vocabulary, encoder)
    matcher = new_matcher(recipe, vocabulary, encoder, task.image_dim)
    parts = matcher.members if isinstance(matcher, Ensemble | MetricFusion) else [matcher]
    for mine, member in zip(parts, members, strict=True):
        mine.load_state_dict(member.matcher.state_dict())
    run = Run(str(out), out, recipe, vocabulary, encoder, matcher.to(default_device()))
    val: dict[str, Any] | None = None
    learned: dict[str, Any] = {}
    if concept_settings(recipe.matcher) is not None:
        out.mkdir(parents=True, exist_ok=True)
        run_concepts(members[0]).save(out / CONCEPTS)  # what measures the run reads it
    if isinstance(task, SentenceTask | ConceptTask) and isinstance(recipe.matcher, FineTunedSettings):
        run.recipe, val, learned = fine_tune(run, task)
    if isinstance(task, SentenceTask) and isinstance(matcher, MetricFusion) and matcher.asks:
        learned = {"gates": train_gates(run, task.data, task.val)}
    _write(run, members)
    about = {member.recipe.name: _about(member) for member in members}
    write_composed_report(run, corpus, task, about, val or task.measure(run), learned)
    return Run.load(str(out))


def _write(run: Run, members: Sequence[Run]) -> None:
    """All that the run's folder must hold."""
    out = run.folder
    out.mkdir(parents=True, exist_ok=True)
    for member in members:
        for name in member.recipe.encoders:
            copy_tuned(name, member.folder, out)
    replace_text(out / RECIPE, dump_recipe(run.recipe))
    if concept_settings(run.recipe.matcher) is not None:
        save_head_inputs(out, run.recipe.encoders[0], run.recipe.arrays)
    run.vocabulary.save(out / VOCABULARY)
    if run.sentence_encoder is not None:
        save_sentence_encoder(run.sentence_encoder, out / TEXT)
    with replacing(out / WEIGHTS) as beside:
        save_file({key: value.contiguous() for key, value in run.matcher.state_dict().items()}, beside)


def _with_tuned_encoders(recipe: Recipe, members: Sequence[Run]) -> Recipe:
    """The recipe with the encoders that its members have fine-tuned in the place of those they began with.

    Raises:
        SeesayError: one member has fine-tuned an encoder that another takes as it was.
    """
    tuned: dict[str, str] = {}
    for member in members:
        for name in member.recipe.encoders:
            if tuned.setdefault(untuned(name), name) != name:
                raise SeesayError(
                    f"Recipe '{recipe.name}': one member has fine-tuned {untuned(name)}, another has not, or "
                    "by itself; let the other begin with another encoder."
                )
    return recipe.model_copy(update={"encoders": tuple(tuned[name] for name in recipe.encoders)})


def is_put_together(out: Path, members: Sequence[Path]) -> bool:
    """Whether `out` holds the ensemble of these finished runs with the weights that they have now."""
    if not (out / REPORT).is_file():
        return False
    there = [member["weights"] for member in read_report(out).get(MEMBERS, {}).values()]
    return there == [_digest(member / WEIGHTS) for member in members]


def _finished(folder: Path, recipe: Recipe, corpus: Corpus | PhraseCorpus) -> Run:
    if not is_same(read_recipe(folder / RECIPE), recipe):
        raise SeesayError(f"{folder / RECIPE}: another recipe was trained there; choose another --out.")
    run = Run.load(str(folder))
    if not learned_from(run, corpus.split("train").texts()):
        raise SeesayError(
            f"{folder}: was trained on other sentences than those of {corpus.root}; choose another --out."
        )
    return run


def _check_members(recipe: Recipe, members: Sequence[Run]) -> None:
    """The recipe's matchers on the recipe's inputs, the same words and the same sentence vectors."""
    assert isinstance(recipe.matcher, ComposedSettings)
    if tuple(member.recipe.matcher for member in members) != recipe.matcher.matchers:
        raise SeesayError(
            f"Recipe '{recipe.name}' is of {', '.join(recipe.matcher.members)}, "
            f"not of the runs {', '.join(member.name for member in members)}."
        )
    for member in members:
        check_member(recipe, member.recipe)
    first, *others = _readers(members)
    for member in others:
        if member.vocabulary.words != first.vocabulary.words:
            raise SeesayError(
                f"{member.name}: another vocabulary than that of {first.name}; "
                "members are trained on the same sentences."
            )
    first, *others = [member for member in members if member.sentence_encoder is not None] or members
    for member in others:
        if _text(member) != _text(first):
            raise SeesayError(
                f"{member.name}: its sentence encoder was fitted otherwise than that of {first.name}; "
                "members read the same vectors. Train one of them again."
            )


def _readers(members: Sequence[Run]) -> Sequence[Run]:
    """Those that read words, whose vocabulary counts; all where none does."""
    return [member for member in members if not reads_no_words(member.recipe.matcher)] or members


def _text(member: Run) -> str | None:
    return member.sentence_encoder.fingerprint if member.sentence_encoder is not None else None


def _about(member: Run) -> dict[str, Any]:
    report = read_report(member.folder)
    monitor = report["monitor"]
    return {
        "weights": _digest(member.folder / WEIGHTS),
        "seconds": report["seconds"],
        "best_epoch": report["best_epoch"],
        monitor: report["best_val"][monitor],
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
