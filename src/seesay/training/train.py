"""Training: from a recipe and a corpus to a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.errors import SeesayError
from seesay.matchers.run import RECIPE, TEXT, VOCABULARY, WEIGHTS, Run, default_device, new_matcher
from seesay.matchers.text_inputs import fitted_sentence_encoder
from seesay.paths import replace_text, replacing
from seesay.progress import progress
from seesay.recipes.load import dump_recipe, read_recipe
from seesay.recipes.matchers import ComposedSettings, ConceptSettings
from seesay.recipes.schema import CorrelationSettings, Recipe
from seesay.text.concepts import FILE as CONCEPTS
from seesay.text.concepts import ConceptVocabulary
from seesay.text.encoders import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from seesay.text.vocabulary import Vocabulary
from seesay.training import checkpoint
from seesay.training.closed_form import solve
from seesay.training.composed import MEMBERS, train_composed
from seesay.training.metrics import METRICS, draw_curves, write_metrics
from seesay.training.optimiser import new_optimiser, rate_factor
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
    split = corpus.split("train")
    texts = split.texts()
    concepts = _concepts(recipe, texts)
    vocabulary = concepts.vocabulary() if concepts else Vocabulary.of(texts, recipe.least)
    _check_vocabulary(vocabulary, corpus, out)
    encoder = _sentence_encoder(recipe, split, out if resume else None)
    task = task_of(recipe, corpus, vocabulary, encoder)
    torch.manual_seed(recipe.seed)
    matcher = new_matcher(recipe, vocabulary, encoder, task.image_dim)
    matcher.prepare(vocabulary)
    # Written only now: a corpus that cannot be trained on leaves no folder in the way.
    out.mkdir(parents=True, exist_ok=True)
    replace_text(out / RECIPE, dump_recipe(recipe))
    vocabulary.save(out / VOCABULARY)
    if concepts is not None:
        concepts.save(out / CONCEPTS)
    if encoder is not None:
        save_sentence_encoder(encoder, out / TEXT)
    run = Run(str(out), out, recipe, vocabulary, encoder, matcher.to(default_device()))
    if isinstance(recipe.objective, CorrelationSettings):
        best, history = solve(task, run)
    else:
        loop = _Loop(task, run)
        if resume and (out / checkpoint.FILE).is_file():
            loop.restore()
        best, history = loop.run()
    _finish(run, corpus, task, best, history)
    return Run.load(str(out))


@dataclass
class _State:
    """What a resumed run must know besides weights: plain values, kept as JSON in the checkpoint."""

    history: list[dict[str, Any]]
    best_epoch: int = 0
    best_measure: float = -1.0


class _Loop:
    def __init__(self, task: Task, run: Run) -> None:
        self.task, self.view, self.recipe, self.out = task, run, run.recipe, run.folder
        self.matcher, self.device = run.matcher, run.device
        self.optimiser = new_optimiser(self.recipe.optimiser, self.matcher.parameters())
        self.state = _State([])
        self.best: dict[str, Tensor] = {}

    def restore(self) -> None:
        _, self.best, state = checkpoint.load_checkpoint(self.out, self.matcher, self.optimiser)
        self.state = _State(**state)
        write_metrics(self.out / METRICS, self.state.history)

    def run(self) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
        """Epochs until the schedule or the patience ends: the best weights, and every epoch's row."""
        for epoch in range(len(self.state.history) + 1, self.recipe.schedule.epochs + 1):
            if self._patience_spent():
                break
            self._epoch(epoch)
        return self.best, self.state.history

    def _epoch(self, epoch: int) -> None:
        start = time.monotonic()
        loss = self._learn(epoch)
        measured = self.task.measure(self.view)
        if measured[self.task.headline] > self.state.best_measure:
            self.state.best_measure, self.state.best_epoch = measured[self.task.headline], epoch
            state = self.matcher.state_dict()
            self.best = {key: value.detach().cpu().clone() for key, value in state.items()}
        row = {
            "epoch": epoch,
            "loss": loss,
            "seconds": round(time.monotonic() - start, 2),
            "val": measured,
        }
        self.state.history.append(row)
        checkpoint.save_checkpoint(self.out, epoch, self.matcher, self.optimiser, self.best, vars(self.state))
        write_metrics(self.out / METRICS, self.state.history)

    def _learn(self, epoch: int) -> float:
        schedule = self.recipe.schedule
        batches = self.task.batches(epoch)
        self.matcher.train()
        total = 0.0
        with progress(f"{self.recipe.name} {epoch}/{schedule.epochs}", len(batches), "batches") as advance:
            for step, batch in enumerate(batches):
                self._set_rate(rate_factor(schedule, (epoch - 1 + step / len(batches)) / schedule.epochs))
                total += self._step(batch)
                advance(1)
        self.matcher.eval()
        return total / max(len(batches), 1)

    def _step(self, batch: Any) -> float:
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            losses = self.task.losses(self.matcher, batch, self.device)
        loss = torch.stack(losses).sum()
        if not torch.isfinite(loss):
            raise SeesayError(f"{self.out}: the loss is {loss.item()}; lower optimiser.rate or clip.")
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if self.recipe.optimiser.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.matcher.parameters(), self.recipe.optimiser.clip)
        self.optimiser.step()
        return loss.item() / len(losses)

    def _set_rate(self, factor: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.optimiser.rate * factor

    def _patience_spent(self) -> bool:
        patience = self.recipe.schedule.patience
        return patience is not None and len(self.state.history) - self.state.best_epoch >= patience


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


def _concepts(recipe: Recipe, texts: Sequence[str]) -> ConceptVocabulary | None:
    """What a recipe of concepts learns to predict: its vocabulary, in the place of all words."""
    if not isinstance(recipe.matcher, ConceptSettings):
        return None
    return ConceptVocabulary.of(texts, recipe.matcher.count, recipe.least)


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
    if begun and dump_recipe(read_recipe(out / RECIPE)) != dump_recipe(recipe):
        raise SeesayError(f"{out / RECIPE}: another recipe was trained there; choose another --out.")


def _check_vocabulary(vocabulary: Vocabulary, corpus: Corpus | PhraseCorpus, out: Path) -> None:
    if (out / VOCABULARY).exists() and Vocabulary.load(out / VOCABULARY).words != vocabulary.words:
        raise SeesayError(
            f"{out}: was trained on other sentences than those of {corpus.root}; choose another --out."
        )
