"""Training: from a recipe and a corpus to a run."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from seesay import __version__
from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.evaluation.measure import measure
from seesay.matchers.inputs import Inputs, split_inputs
from seesay.matchers.run import RECIPE, VOCABULARY, WEIGHTS, Run, default_device, new_matcher
from seesay.paths import replace_text, replacing
from seesay.progress import progress
from seesay.recipes.load import dump_recipe, read_recipe
from seesay.recipes.schema import Recipe, ScheduleSettings
from seesay.text.vocabulary import Vocabulary
from seesay.training import checkpoint
from seesay.training.metrics import METRICS, draw_curves, write_metrics
from seesay.training.objectives import objective_value
from seesay.training.runs import REPORT
from seesay.training.sampler import pair_batches


def train(recipe: Recipe, corpus: Corpus, out: Path, resume: bool = False) -> Run:
    """Train the recipe's matcher on the corpus's train split and keep the epoch with the best val mR.

    With `resume` a run goes on behind its last finished epoch, and ends with the weights that it
    would have had without the interruption, bit for bit.

    Raises:
        SeesayError: `out` holds a run already, or one of another recipe is to be resumed.
    """
    _check_folder(recipe, out, resume)
    vocabulary = Vocabulary.of(corpus.split("train").texts(), recipe.least)
    _check_vocabulary(vocabulary, corpus, out)
    data = split_inputs(recipe, corpus, "train", vocabulary)
    val = split_inputs(recipe, corpus, "val", vocabulary)
    # Written only now: a corpus that cannot be trained on leaves no folder in the way.
    out.mkdir(parents=True, exist_ok=True)
    replace_text(out / RECIPE, dump_recipe(recipe))
    vocabulary.save(out / VOCABULARY)
    loop = _Loop(recipe, corpus, out, vocabulary, data, val)
    if resume and (out / checkpoint.FILE).is_file():
        loop.restore()
    loop.run()
    return Run.load(str(out))


@dataclass
class _State:
    """What a resumed run must know besides weights: plain values, kept as JSON in the checkpoint."""

    history: list[dict[str, Any]]
    best_epoch: int = 0
    best_recall: float = -1.0
    seconds: float = 0.0


class _Loop:
    def __init__(
        self, recipe: Recipe, corpus: Corpus, out: Path, vocabulary: Vocabulary, data: Inputs, val: Inputs
    ) -> None:
        self.recipe, self.corpus, self.out, self.data, self.val = recipe, corpus, out, data, val
        self.device = default_device()
        torch.manual_seed(recipe.seed)
        self.matcher = new_matcher(recipe, vocabulary, data.features.shape[1])
        self.matcher.prepare()
        self.matcher.to(self.device)
        settings = recipe.optimiser
        kind = torch.optim.AdamW if settings.decay else torch.optim.Adam
        self.optimiser = kind(self.matcher.parameters(), lr=settings.rate, weight_decay=settings.decay)
        self.state = _State([])
        self.best: dict[str, Tensor] = {}
        self.vocabulary = vocabulary
        self.run_view = Run(str(out), out, recipe, vocabulary, self.matcher)

    def restore(self) -> None:
        _, self.best, state = checkpoint.load_checkpoint(self.out, self.matcher, self.optimiser)
        self.state = _State(**state)
        write_metrics(self.out / METRICS, self.state.history)

    def run(self) -> None:
        """Epochs until the schedule or the patience ends; then the best weights become the run's."""
        for epoch in range(len(self.state.history) + 1, self.recipe.schedule.epochs + 1):
            if self._patience_spent():
                break
            self._epoch(epoch)
        self._finish()

    def _epoch(self, epoch: int) -> None:
        start = time.monotonic()
        loss = self._learn(epoch)
        measured = measure(self.run_view, self.val, "val")
        if measured["mR"] > self.state.best_recall:
            self.state.best_recall, self.state.best_epoch = measured["mR"], epoch
            state = self.matcher.state_dict()
            self.best = {key: value.detach().cpu().clone() for key, value in state.items()}
        seconds = time.monotonic() - start
        self.state.seconds += seconds
        row = {"epoch": epoch, "loss": loss, "seconds": round(seconds, 2), "val": measured}
        self.state.history.append(row)
        checkpoint.save_checkpoint(self.out, epoch, self.matcher, self.optimiser, self.best, vars(self.state))
        write_metrics(self.out / METRICS, self.state.history)

    def _learn(self, epoch: int) -> float:
        recipe, data = self.recipe, self.data
        batches = list(pair_batches(data.image_of_sentence, recipe.batch, recipe.seed, epoch))
        self.matcher.train()
        total = 0.0
        with progress(f"Epoch {epoch}/{recipe.schedule.epochs}", len(batches), "batches") as advance:
            for step, (images, sentences) in enumerate(batches):
                passed = (epoch - 1 + step / len(batches)) / recipe.schedule.epochs
                self._set_rate(rate_factor(recipe.schedule, passed))
                total += self._step(torch.from_numpy(images), torch.from_numpy(sentences))
                advance(1)
        self.matcher.eval()
        return total / max(len(batches), 1)

    def _step(self, images: Tensor, chosen: Tensor) -> float:
        features = self.data.features[images].to(self.device)
        sentences = self.data.sentences.take(chosen).to(self.device)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            scores = self.matcher.training_scores(features, sentences)
        owners = images.to(self.device)
        losses = [objective_value(self.recipe.objective, each.float(), owners) for each in scores]
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

    def _finish(self) -> None:
        with replacing(self.out / WEIGHTS) as beside:
            save_file({key: value.contiguous() for key, value in self.best.items()}, beside)
        draw_curves(self.state.history, self.out)
        report = {
            "recipe": self.recipe.name,
            "seed": self.recipe.seed,
            "corpus": {"name": self.corpus.name, "root": str(self.corpus.root.resolve())},
            "best_epoch": self.state.best_epoch,
            "epochs": len(self.state.history),
            "seconds": round(self.state.seconds, 1),
            "train": {"images": len(self.data.features), "sentences": len(self.data.sentences)},
            "val": {"images": len(self.val.features), "sentences": len(self.val.sentences)},
            "broken_images": [str(error) for error in (*self.data.broken, *self.val.broken)],
            "vocabulary": len(self.vocabulary),
            "versions": {"seesay": __version__} | {n: version(n) for n in ("torch", "numpy", "onnxruntime")},
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, {self.device}",
            "best_val": self.state.history[self.state.best_epoch - 1]["val"],
        }
        replace_text(self.out / REPORT, json.dumps(report, indent=1) + "\n")


def rate_factor(schedule: ScheduleSettings, passed: float) -> float:
    """What the learning rate is multiplied by after that share of the epochs, 0 ≤ passed < 1."""
    if schedule.shape == "cosine":
        return 0.5 * (1 + math.cos(math.pi * passed))
    if schedule.shape == "step":
        return 0.1 if passed * schedule.epochs >= schedule.step_epoch else 1.0
    return 1.0


def _check_folder(recipe: Recipe, out: Path, resume: bool) -> None:
    if not (out / RECIPE).exists():
        if resume:
            raise SeesayError(f"{out}: nothing to resume there; leave --resume away to start.")
        return
    if not resume:
        raise SeesayError(f"{out}: holds a run already; choose another --out, or --resume it.")
    if dump_recipe(read_recipe(out / RECIPE)) != dump_recipe(recipe):
        raise SeesayError(f"{out / RECIPE}: another recipe was trained there; choose another --out.")


def _check_vocabulary(vocabulary: Vocabulary, corpus: Corpus, out: Path) -> None:
    if (out / VOCABULARY).exists() and Vocabulary.load(out / VOCABULARY).words != vocabulary.words:
        raise SeesayError(
            f"{out}: was trained on other sentences than those of {corpus.root}; choose another --out."
        )
