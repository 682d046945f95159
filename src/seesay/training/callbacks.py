"""Callbacks of the training: an own one, TensorBoard, Weights & Biases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from seesay.errors import SeesayError, did_you_mean, naming_extras

OnEpochEnd = Callable[[int, Mapping[str, float]], None]  # an epoch and its metrics


class Callback:
    """Base class of callbacks, which follow a training; override the methods that you need.

    A composed recipe trains its members one after the other, each with a start and an end of its own. What is
    learned afterwards, such as gates, has its own start and end, too.

    Example:
        >>> import tempfile, seesay
        >>> from seesay.data.scenes import write_scenes
        >>> class Printed(seesay.Callback):
        ...     def on_epoch_end(self, epoch, metrics):
        ...         print(epoch, sorted(metrics)[:3])
        >>> folder = tempfile.mkdtemp()
        >>> write_scenes(f"{folder}/scenes", images=30, seed=1)
        >>> run = seesay.train("irmatch-s", f"{folder}/scenes", out=f"{folder}/run", epochs=1,
        ...     encoders=["efficientnet-lite0"], matcher={"dim": 24}, callbacks=[Printed()])
        1 ['active', 'loss', 'lr']
    """

    def on_train_start(self, name: str, folder: Path, recipe: Mapping[str, Any]) -> None:
        """Run when training starts; `recipe` holds the resolved recipe as JSON-ready values."""

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Run after each epoch, counted from 1.

        `metrics` are `loss`, `seconds`, `lr` where there is one, `active` (the share of hinges above zero) if
        the loss has hinges, and the measures of the val split, such as `val/mR` and `val/S R@1`.
        The gates of a fusion have `image gate/loss`, `image gate/val loss` and the same of the sentence
        gate, whose epochs are counted on.
        """

    def on_train_end(self) -> None:
        """Run when training ends, even after an error or an interruption."""


class TensorBoard(Callback):
    """Writes the metrics to `tensorboard` in the run's folder; a resumed run continues there."""

    def on_train_start(self, name: str, folder: Path, recipe: Mapping[str, Any]) -> None:  # noqa: ARG002
        """See `Callback`."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """See `Callback`."""
        for name, value in metrics.items():
            self._writer.add_scalar(name.replace(" ", "_"), value, epoch)
        self._writer.flush()

    def on_train_end(self) -> None:
        """See `Callback`."""
        self._writer.close()


class WandB(Callback):
    """Sends the metrics to Weights & Biases, project `seesay`; its environment variables choose others."""

    def on_train_start(self, name: str, folder: Path, recipe: Mapping[str, Any]) -> None:
        """See `Callback`."""
        import os

        import wandb

        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "seesay"), name=name, dir=str(folder), config=dict(recipe)
        )

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """See `Callback`."""
        self._run.log(dict(metrics), step=epoch)

    def on_train_end(self) -> None:
        """See `Callback`."""
        self._run.finish()


LOGGERS: dict[str, Callable[[], Callback]] = {"tensorboard": TensorBoard, "wandb": WandB}
_MODULES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}


def logger(name: str) -> Callback:
    """Return the callback of `--log NAME`.

    Raises:
        SeesayError: there is none of that name, or its package is not installed.
    """
    from importlib import import_module

    if name not in LOGGERS:
        near = did_you_mean(name, LOGGERS) or "."
        raise SeesayError(f"No logger '{name}'{near} There are: {', '.join(LOGGERS)}.")
    with naming_extras():
        import_module(_MODULES[name])
    return LOGGERS[name]()


@contextmanager
def running(
    callbacks: Sequence[Callback], name: str, folder: Path, recipe: Mapping[str, Any]
) -> Iterator[OnEpochEnd]:
    """Start the callbacks and, whatever happens, end them; yield the function to call after each epoch."""
    with ExitStack() as ends:
        for callback in callbacks:
            callback.on_train_start(name, folder, recipe)
            ends.callback(callback.on_train_end)

        def on_epoch_end(epoch: int, metrics: Mapping[str, float]) -> None:
            for callback in callbacks:
                callback.on_epoch_end(epoch, metrics)

        yield on_epoch_end
