"""Callbacks that follow the epochs of a training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pydantic import JsonValue

from seesay.protocols.base import Result
from seesay.runs.summary import Epoch

OnEpochEnd = Callable[[int, Mapping[str, float]], None]  # called with an epoch and its metrics


def epoch_metrics(epoch: Epoch, measured: Result, lr: float | None = None) -> dict[str, float]:
    """Return an epoch's metrics as callbacks receive them; the names of val metrics begin with `val/`."""
    own = epoch.model_dump(include={"loss", "seconds", "ridge"}) | {"lr": lr}
    val = {f"val/{column}": value for column, value in measured.shown.items()}
    found = own | (epoch.metrics or {}) | val
    return {name: value for name, value in found.items() if value is not None}


class Callback:
    """Base class of callbacks; override the methods that you need.

    A composed recipe trains its members one after the other, each with its own start and end. Later steps,
    such as gates, also have their own start and end.

    Example:
        >>> import tempfile, seesay
        >>> from PIL import Image
        >>> class Printed(seesay.Callback):
        ...     def on_epoch_end(self, epoch, metrics):
        ...         print(epoch, sorted(metrics)[:3])
        >>> squares = [Image.new("RGB", (64, 64), f"hsl({12 * n}, 90%, 50%)") for n in range(30)]
        >>> corpus = seesay.corpus_of([(image, "a coloured square", None) for image in squares])
        >>> run = seesay.train("irmatch-s", corpus, out=f"{tempfile.mkdtemp()}/run", epochs=1,
        ...     encoders=["efficientnet-lite0"], matcher={"dim": 24}, callbacks=[Printed()])
        1 ['loss', 'lr', 'seconds']
    """

    def on_train_start(self, name: str, folder: Path, recipe: Mapping[str, JsonValue]) -> None:
        """Run when training starts; `recipe` holds the resolved recipe as JSON-ready values."""

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Run after each epoch, counted from 1.

        `metrics` are `loss`, `seconds`, `lr` (for CCA `ridge`), the matcher's own metrics, if any, and those
        of val, such as `val/mR` and `val/S R@1`. The gates of a fusion have `image gate/loss`, `image
        gate/val loss` and the same for the sentence gate, whose epochs are counted on.
        """

    def on_train_end(self) -> None:
        """Run when training ends, even after an error or an interruption."""


@contextmanager
def running(
    callbacks: Sequence[Callback], name: str, folder: Path, recipe: Mapping[str, JsonValue]
) -> Iterator[OnEpochEnd]:
    """Start the callbacks and always end them; yield the function to call after each epoch."""
    with ExitStack() as ends:
        for callback in callbacks:
            callback.on_train_start(name, folder, recipe)
            ends.callback(callback.on_train_end)

        def on_epoch_end(epoch: int, metrics: Mapping[str, float]) -> None:
            for callback in callbacks:
                callback.on_epoch_end(epoch, metrics)

        yield on_epoch_end
