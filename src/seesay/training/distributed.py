"""Training by several processes of torch.distributed, one per device: each encodes a share of a mini-batch.

In each process, a matcher's row-wise methods compute a share of the rows; the results of all processes are
gathered with their gradients. Every process computes the loss of the whole mini-batch, with all negatives,
and PyTorch's `DistributedDataParallel` averages the gradients. Without dropout, the weights therefore equal
those of a single process, up to rounding. Without a process group, these functions have no effect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.autograd.function import FunctionCtx
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from seesay.device import choose_device, chosen_device, default_device
from seesay.errors import SeesayError
from seesay.matchers.sentences import Sentences
from seesay.progress import show_progress
from seesay.recipes.schema import Recipe

# Methods of matchers that compute each row separately, and the number of leading arguments with these rows.
_ROW_BY_ROW = {
    "embed_images": 1,
    "embed_sentences": 1,
    "encode_images": 1,
    "encode_sentences": 1,
    "score_encoded": 1,
    "score_pairs": 2,
}
_WAIT = timedelta(days=2)  # for the first process, which encodes a corpus or measures val between steps

_patient: distributed.ProcessGroup | None = None  # the group in which processes wait for the first


def processes() -> int:
    """Return the number of processes; 1 without a process group."""
    return distributed.get_world_size() if _in_group() else 1


def is_first() -> bool:
    """Return whether this process measures and writes."""
    return not _in_group() or distributed.get_rank() == 0


def _in_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


@contextmanager
def joined(recipe: Recipe) -> Iterator[None]:
    """Join the process group of torchrun's environment variables, if any, and leave it at the end.

    An existing process group, such as one of Ray Train, is used and kept.

    Raises:
        SeesayError: the recipe cannot be trained by several processes, there are too few GPUs or a single one
            was chosen, or another process has ended.
    """
    together = processes() if _in_group() else int(os.environ.get("WORLD_SIZE", "1"))
    if together == 1:
        yield
        return
    check_shareable(recipe)
    global _patient
    own = not _in_group()
    before = chosen_device()
    try:
        if own:
            _choose_gpu()
            distributed.init_process_group("cpu:gloo,cuda:nccl" if _on_gpu() else "gloo")
        _patient = distributed.new_group(backend="gloo", timeout=_WAIT)
        if not is_first():
            show_progress(False)
        yield
    except RuntimeError as failure:
        if isinstance(failure, distributed.DistError) or "gloo" in str(failure):
            raise SeesayError(
                "Another process of this training has ended; see its output, and continue with --resume."
            ) from failure
        raise
    finally:
        _patient = None
        if own and _in_group():
            distributed.destroy_process_group()
        choose_device(before)


@contextmanager
def one_after_first() -> Iterator[None]:
    """Let the first process go first, so that the others find its files and caches."""
    if not is_first():
        wait()
    yield
    if is_first():
        wait()


def wait() -> None:
    """Wait for all processes."""
    if processes() > 1:
        distributed.all_reduce(torch.zeros(1), group=_patient)


def first_says(answer: bool) -> bool:
    """Return the first process's answer in every process."""
    if processes() == 1:
        return answer
    said = torch.tensor([answer])
    distributed.broadcast(said, 0, group=_patient)
    return bool(said)


@contextmanager
def shared(
    matcher: nn.Module, losses: Callable[[nn.Module, Any], list[Tensor]]
) -> Iterator[Callable[[Any], list[Tensor]]]:
    """Yield the function that computes the losses of a mini-batch in all processes together.

    The processes start with the first one's weights, and draw the same random numbers from then on, except
    within their share of the rows.

    Args:
        matcher: in training mode; its class determines the row-wise methods.
        losses: of the matcher on a mini-batch, which is the same in every process.
    """
    if processes() == 1:
        yield partial(losses, matcher)
        return
    device = next(matcher.parameters()).device
    _draw_alike(device)
    sharing = _Sharing(device)
    hooks: list[RemovableHandle] = []
    for layer in matcher.modules():
        if isinstance(layer, _BatchNorm):  # PyTorch's SyncBatchNorm takes no tensors on a CPU
            hooks.append(layer.register_forward_pre_hook(sharing.gather_rows))
            hooks.append(layer.register_forward_hook(sharing.take_own_rows))
    try:
        # Not every loss uses every weight of a matcher.
        yield DistributedDataParallel(_Losses(sharing.of(matcher), losses), find_unused_parameters=True)
    finally:
        for hook in hooks:
            hook.remove()


class _Losses(nn.Module):
    """The losses of a matcher as a module, whose gradients `DistributedDataParallel` averages."""

    def __init__(self, matcher: nn.Module, losses: Callable[[nn.Module, Any], list[Tensor]]) -> None:
        super().__init__()
        self.matcher, self._losses = matcher, losses

    def forward(self, batch: Any) -> list[Tensor]:
        return self._losses(self.matcher, batch)


def _draw_alike(device: torch.device) -> None:
    """Copy the random state of the first process to all."""
    state = torch.get_rng_state()
    distributed.broadcast(state, 0)
    torch.set_rng_state(state)
    if device.type == "cuda":
        state = torch.cuda.get_rng_state(device)
        distributed.broadcast(state, 0)
        torch.cuda.set_rng_state(state, device)


class _Sharing:
    """Wraps a matcher so that each process computes a share of the rows, which are gathered."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._active = False  # within a method that computes a share of the rows
        self._sizes: list[int] = []  # the number of rows of each process in a batch normalisation layer

    def of(self, matcher: nn.Module) -> nn.Module:
        """Return the matcher, with the same weights and methods that share their rows."""
        twin = copy(matcher)
        for name, arguments in _ROW_BY_ROW.items():
            if hasattr(twin, name):
                setattr(twin, name, self._rows_of(getattr(twin, name), arguments))
        return twin

    def _rows_of(self, method: Callable[..., Any], arguments: int) -> Callable[..., Any]:
        """Share the rows of the first arguments, and gather those of the result."""

        def shared_rows(*given: Any) -> Any:
            count = len(given[0])
            if self._active or count < processes():
                return method(*given)
            shares = torch.arange(count).tensor_split(processes())
            mine = [_take(each, shares[distributed.get_rank()]) for each in given[:arguments]]
            with self._apart():
                result = method(*mine, *given[arguments:])
            return _Gather.apply(result, [len(share) for share in shares])  # type: ignore[no-untyped-call]

        return shared_rows

    def gather_rows(self, layer: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        """Pass the rows of all processes to a batch normalisation layer."""
        del layer
        if not self._active:
            return inputs
        lengths = torch.zeros(processes(), dtype=torch.int64, device=inputs[0].device)
        lengths[distributed.get_rank()] = len(inputs[0])
        distributed.all_reduce(lengths)
        self._sizes = lengths.tolist()
        return (_Gather.apply(inputs[0], self._sizes),)  # type: ignore[no-untyped-call]

    def take_own_rows(self, layer: nn.Module, inputs: tuple[Tensor], outputs: Tensor) -> Tensor:
        """Return this process's rows of the layer's output."""
        del layer, inputs
        return torch.split(outputs, self._sizes)[distributed.get_rank()] if self._active else outputs

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Draw random numbers, such as those of dropout, that differ from those of other processes."""
        seed = int(torch.randint(2**62, ())) + distributed.get_rank()
        self._active = True
        try:
            with torch.random.fork_rng([self._device] if self._device.type == "cuda" else []):
                torch.manual_seed(seed)
                yield
        finally:
            self._active = False


def _take(given: Tensor | Sentences, chosen: Tensor) -> Tensor | Sentences:
    """Return the chosen rows, which are consecutive."""
    if isinstance(given, Tensor):
        return given[chosen[0] : chosen[-1] + 1]
    return given.take(chosen.to(given.lengths.device))


class _Gather(torch.autograd.Function):
    """An all-gather with gradients: every process computes the loss, so the gradients of a row are summed.

    PyTorch's own is deprecated, and its replacement needs a newer version than the oldest supported one.
    Processes may have different numbers of rows, `sizes`.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, sizes: Sequence[int]) -> Tensor:
        ctx.sizes = list(sizes)  # type: ignore[attr-defined]
        padded = rows.new_zeros(max(sizes), *rows.shape[1:])  # processes exchange tensors of one shape
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return torch.split(total, ctx.sizes)[distributed.get_rank()], None


def check_shareable(recipe: Recipe) -> None:
    """Raise a `SeesayError` if several processes cannot train a recipe together."""
    shared = {*_ROW_BY_ROW, "training_scores"}
    if recipe.matcher.is_composed:
        raise SeesayError(
            f"Recipe '{recipe.name}' combines runs or fine-tunes one; train its members by several "
            "processes, and this recipe by one."
        )
    if shared.isdisjoint(recipe.loss.loss_class.needs):
        raise SeesayError(
            f"Recipe '{recipe.name}': the loss {recipe.loss.kind} is not one of scores or embeddings, and "
            "several processes cannot share it; train without --devices."
        )


def _on_gpu() -> bool:
    return torch.device(default_device()).type == "cuda"


def _choose_gpu() -> None:
    """Choose the GPU with this process's number on its machine."""
    if not _on_gpu():
        return
    if torch.device(default_device()).index is not None:
        raise SeesayError(
            f"--device {default_device()}: several processes use one GPU each; omit the option, or name "
            f"cuda or cpu."
        )
    number, there = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= there:
        raise SeesayError(f"--devices: this machine has {there} GPUs, and process {number + 1} finds none.")
    choose_device(f"cuda:{number}")
    torch.cuda.set_device(number)
