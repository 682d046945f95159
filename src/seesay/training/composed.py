"""Composed matchers: members are trained by their own recipes and then combined into one run.

For a fusion (GVSE), gates are trained afterwards. The second step of two-step learning fine-tunes its only
member together with the CNNs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from seesay.data.corpus import Corpus
from seesay.device import default_device
from seesay.encoders.images.base import TEN
from seesay.encoders.images.efficientnet import LITE, load_lite
from seesay.encoders.images.tuned import copy_tuned, save_tuned
from seesay.encoders.networks import tunable_parts
from seesay.encoders.settings import TIMM, EncoderSettings
from seesay.encoders.towers import load_timm_network
from seesay.errors import SeesayError
from seesay.matchers.composed import FineTunedSettings
from seesay.paths import file_digest
from seesay.protocols.concepts import run_concepts
from seesay.recipes.load import member_recipes
from seesay.recipes.schema import Recipe
from seesay.runs.folder import WEIGHTS
from seesay.runs.run import Run
from seesay.runs.summary import METRICS, Epoch, MemberSummary, TrainingSummary, is_finished
from seesay.runs.torch_backend import new_matcher, save_weights
from seesay.text.concepts import FILE as CONCEPTS
from seesay.text.concepts import save_concepts
from seesay.training.concept_task import with_concept_runs
from seesay.training.gates import train_gates
from seesay.training.loop import CHECKPOINT, Callback, Loop, OnEpochEnd, has_epochs, running
from seesay.training.sentence_task import SentenceTask, task_for
from seesay.training.summarize import finish, summarize
from seesay.training.task import Task
from seesay.training.tuning import FromPixels, PixelsTask
from seesay.training.words import check_begun, with_own_vectors

MEMBERS = "members"
Train = Callable[[Recipe, Corpus, Path, bool], Run]


def train_composed(
    recipe: Recipe, corpus: Corpus, out: Path, train: Train, callbacks: Sequence[Callback]
) -> Run:
    """Train the members in `out/members`, one after the other, and combine them in `out`.

    Finished members are reused; an unfinished one is resumed: the last argument of `train`. The callbacks
    follow the epochs of fine-tuning or of gates.

    Raises:
        SeesayError: a member cannot be trained, its folder contains another run, or there are no images to
            tune a CNN on.
    """
    check_tunable_on(corpus, recipe)
    members = []
    for member in member_recipes(recipe):
        member = with_own_vectors(with_concept_runs(member, out.parent.joinpath), corpus)
        members.append(finished_run(member, corpus, out / MEMBERS / member.name, train))
    if is_combined(out, [member.folder for member in members]):
        return Run.load(str(out))
    return combine_members(with_concept_runs(recipe, out.parent.joinpath), members, corpus, out, callbacks)


def finished_run(recipe: Recipe, corpus: Corpus, folder: Path, train: Train) -> Run:
    """Return a recipe's run in a folder; it is trained or resumed if it is not finished.

    Raises:
        SeesayError: it cannot be trained, or the folder has a run of another recipe or other sentences.
    """
    finished = is_finished(folder)
    # Weights alone may be those of an exported run.
    if begun := finished or any((folder / file).is_file() for file in (CHECKPOINT, METRICS)):
        recipe = check_begun(folder, recipe, corpus)
    return Run.load(str(folder)) if finished else train(recipe, corpus, folder, begun)


def combine_members(
    recipe: Recipe, members: Sequence[Run], corpus: Corpus, out: Path, callbacks: Sequence[Callback] = ()
) -> Run:
    """Combine finished members, in the recipe's order, into one run in `out`; measure it on val.

    It needs no other folder, and replaces a composed matcher in `out`. The callbacks follow the epochs of
    fine-tuning or of gates.

    Raises:
        SeesayError: their sentence encoders differ, or encoders that one of them has fine-tuned.
    """
    encoders = {each.fingerprint: each for m in members if (each := m.sentence_encoder) is not None}
    if len(encoders) > 1:
        names = ", ".join(member.name for member in members)
        raise SeesayError(f"{names}: have sentence encoders of their own; train one of them again.")
    recipe = _with_tuned_encoders(recipe, members)
    for member in members:
        for name in member.recipe.encoders:
            copy_tuned(name, member.folder, out)
    readers = [member for member in members if member.recipe.matcher.reads_words]
    vocabulary, encoder = (readers or members)[0].vocabulary, next(iter(encoders.values()), None)
    task = task_for(recipe, corpus, vocabulary, encoder, out)
    matcher = new_matcher(recipe, vocabulary, encoder, task.image_dims)
    # A matcher that is fine-tuned may be an ensemble itself.
    tunes = isinstance(recipe.matcher, FineTunedSettings)
    parts = [matcher] if tunes else getattr(matcher, "members", [])
    for mine, member in zip(parts, members, strict=True):
        mine.load_state_dict(member.matcher.state_dict())
    run = Run.from_matcher(out, recipe, vocabulary, encoder, matcher.to(default_device()), task.image_dims)
    if recipe.matcher.predicts_concepts:
        run.save_inputs()
        save_concepts(run_concepts(members[0]), out / CONCEPTS)  # needed to measure the run
    history: list[Epoch] = []
    gates = None
    learning = callbacks if tunes or run.asymmetric else ()
    with running(learning, recipe.name, out, recipe.model_dump(mode="json")) as on_epoch_end:
        if tunes:
            if not has_epochs(out):
                run.save_inputs()  # resuming compares the recipe with this one
            tuned, history = fine_tune(run, task, on_epoch_end)
            run = Run.from_matcher(out, tuned, vocabulary, encoder, run.matcher, task.image_dims)
        elif run.asymmetric:
            assert isinstance(task, SentenceTask)
            gates = train_gates(run, task.data, task.val, on_epoch_end)
    run.save_inputs()
    save_weights(out, run.matcher.state_dict())
    about = {member.recipe.name: _about(member) for member in members}
    summary = summarize(run, corpus, task, history, about, gates)
    run = Run.load(str(out))
    finish(run, corpus, summary)
    return run


def _with_tuned_encoders(recipe: Recipe, members: Sequence[Run]) -> Recipe:
    """Return the recipe with its members' fine-tuned encoders instead of the original ones.

    Raises:
        SeesayError: one member fine-tuned an encoder that another uses untuned or tuned separately.
    """
    tuned: dict[EncoderSettings, EncoderSettings] = {}
    for member in members:
        for encoder in member.recipe.encoders:
            untuned = encoder.untuned
            if tuned.setdefault(untuned, encoder) != encoder:
                raise SeesayError(
                    f"Recipe '{recipe.name}': one member has fine-tuned {untuned} and another has not, "
                    f"or separately; use another encoder in one of them."
                )
    return recipe.model_copy(update={"encoders": tuple(tuned[encoder] for encoder in recipe.encoders)})


def is_combined(out: Path, members: Sequence[Path]) -> bool:
    """Return whether `out` combines these finished runs with their current weights."""
    if not is_finished(out):
        return False
    there = TrainingSummary.load(out).members or {}
    return [each.weights for each in there.values()] == [file_digest(member / WEIGHTS) for member in members]


def _about(member: Run) -> MemberSummary:
    summary = TrainingSummary.load(member.folder)
    return MemberSummary(
        weights=file_digest(member.folder / WEIGHTS),
        seconds=summary.seconds,
        machine=summary.machine,
        best_epoch=summary.best_epoch,
        best=summary.best,
    )


def check_tunable_on(corpus: Corpus, recipe: Recipe) -> None:
    """Check before the first step that a second one can follow, if it does in this recipe.

    Raises:
        SeesayError: there are no CNNs to fine-tune, or no images.
    """
    if isinstance(recipe.matcher, FineTunedSettings):
        check_tunable(recipe)
        if all(image.source is None for image in corpus.images):
            raise SeesayError(
                f"{corpus.root}: recipe '{recipe.name}' tunes a CNN on pixels, but the corpus has no images; "
                "leave it out."
            )


def check_tunable(recipe: Recipe) -> FineTunedSettings:
    """Check that there are CNNs to fine-tune, and return the settings.

    Raises:
        SeesayError: the recipe has other encoders, or settings that its encoders do not support.
    """
    settings = recipe.matcher
    assert isinstance(settings, FineTunedSettings)
    for encoder in recipe.encoders:
        from_timm = encoder.kind == TIMM and encoder.get("crops") == TEN and settings.views is None
        if not (encoder.kind in LITE or from_timm) or encoder.get("tuned"):
            raise SeesayError(
                f"Recipe '{recipe.name}': encoders are {', '.join(map(str, recipe.encoders))}; those of "
                f"{', '.join(LITE)} can be fine-tuned, and timm's with crops: {TEN} and matcher.views=null."
            )
    if settings.views and len({encoder.get("crops") for encoder in recipe.encoders}) > 1:
        raise SeesayError(f"Recipe '{recipe.name}': with matcher.views encoders must take the same crops.")
    return settings


def fine_tune(run: Run, task: Task, on_epoch_end: OnEpochEnd) -> tuple[Recipe, list[Epoch]]:
    """Train a run's matcher in place together with its CNNs, which are stored in the run's folder.

    The run has the first step's weights and the second step's recipe. An interrupted fine-tuning continues
    from the checkpoint in its folder.

    Returns:
        The recipe with the names of the fine-tuned encoders (unchanged if frozen), and every epoch.

    Raises:
        SeesayError: the encoders cannot be fine-tuned, or the loss is not finite.
    """
    settings, out = check_tunable(run.recipe), run.folder
    torch.manual_seed(run.recipe.seed)
    encoders = run.recipe.encoders
    networks = [load_lite(each.kind) if each.kind in LITE else load_timm_network(each) for each in encoders]
    module = FromPixels(networks, run.matcher, run.recipe.arrays, settings.at_once).to(run.device)
    if settings.frozen or settings.views:
        module.networks.requires_grad_(False)
    if settings.views and not settings.frozen:
        for network in networks:
            for part in tunable_parts(network.network):
                part.requires_grad_(True)
    out.mkdir(parents=True, exist_ok=True)
    view = Run.from_matcher(out, run.recipe, run.vocabulary, run.sentence_encoder, module)
    loop = Loop(PixelsTask(run.recipe, task, settings.views), view, on_epoch_end)
    if (out / CHECKPOINT).is_file():
        loop.restore()
    weights, history = loop.run()
    module.load_state_dict(weights)
    if settings.frozen:
        return run.recipe, history
    tuned = []
    for encoder, cnn in zip(encoders, module.networks, strict=True):
        arrays = {key: value.cpu().numpy() for key, value in cnn.state_dict().items()}
        tuned.append(save_tuned(encoder, arrays, out))
    return run.recipe.model_copy(update={"encoders": tuple(tuned)}), history
