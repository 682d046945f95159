"""Training by several processes of torch.distributed, one a device: each encodes its share of a mini-batch.

What a matcher computes row by row is computed for a share of the rows and gathered, gradients included.
In every process the loss is that of the whole mini-batch, with the negatives of all, and so without dropout
the weights are those that one process learns, up to rounding. Without a process group none of it happens.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn
from torch.autograd.function import FunctionCtx
from torch.nn.modules.batchnorm import _BatchNorm

from seesay.device import choose_device, chosen_device, default_device
from seesay.errors import SeesayError
from seesay.matchers.sentences import Sentences
from seesay.progress import show_progress
from seesay.recipes.schema import Recipe

# Methods of matchers that compute each row by itself, and how many of their arguments have those rows.
_ROW_BY_ROW = {
    "embed_images": 1,
    "embed_sentences": 1,
    "encode_images": 1,
    "encode_sentences": 1,
    "score_encoded": 1,
    "score_pairs": 2,
}
_WAIT = timedelta(days=2)  # while the first process encodes a corpus or measures val; not within a step

_patient: distributed.ProcessGroup | None = None  # in which processes wait for the first


def processes() -> int:
    """Return how many processes train together; 1 without a process group."""
    return distributed.get_world_size() if _in_group() else 1


def is_first() -> bool:
    """Return whether this process is the one that measures and writes."""
    return not _in_group() or distributed.get_rank() == 0


def _in_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


@contextmanager
def joined(recipe: Recipe) -> Iterator[None]:
    """Join the other processes, if torchrun's environment variables name some, and leave them at the end.

    A process group that exists already, such as one of Ray Train, is used and left as it is.

    Raises:
        SeesayError: the recipe cannot be trained by several processes, there are fewer GPUs than these, or
            another process has ended.
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
                "Another process of this training has ended; see what it says, and continue with --resume."
            ) from failure
        raise
    finally:
        _patient = None
        if own and _in_group():
            distributed.destroy_process_group()
        choose_device(before)


@contextmanager
def one_after_first() -> Iterator[None]:
    """Let the first process go first, so that the others find in files and caches what it has made."""
    if not is_first():
        wait()
    yield
    if is_first():
        wait()


def wait() -> None:
    """Wait until every process is here."""
    if processes() > 1:
        distributed.all_reduce(torch.zeros(1), group=_patient)


def first_says(answer: bool) -> bool:
    """Return the first process's answer in every process."""
    if processes() == 1:
        return answer
    said = torch.tensor([answer])
    distributed.broadcast(said, 0, group=_patient)
    return bool(said)


def copy_from_first(matcher: nn.Module, device: str) -> None:
    """Give every process the weights and the random state of the first.

    From then on the processes draw the same random numbers, but for those drawn in a share of the rows.
    """
    if processes() == 1:
        return
    with torch.no_grad():
        for each in (*matcher.parameters(), *matcher.buffers()):
            distributed.broadcast(each, 0)
    state = torch.get_rng_state()
    distributed.broadcast(state, 0)
    torch.set_rng_state(state)
    if torch.device(device).type == "cuda":
        state = torch.cuda.get_rng_state(device)
        distributed.broadcast(state, 0)
        torch.cuda.set_rng_state(state, device)


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace gradients by their mean over the processes."""
    if processes() == 1:
        return
    gradients = [each.grad for each in parameters if each.grad is not None]
    flat = torch.cat([each.flatten() for each in gradients])
    distributed.all_reduce(flat)
    flat /= processes()
    parts = torch.split(flat, [each.numel() for each in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


@contextmanager
def shared_rows(matcher: nn.Module) -> Iterator[None]:
    """Let each process compute a share of the rows of what the matcher computes row by row, and gather them.

    Batch normalisation sees the rows of all.
    """
    if processes() == 1:
        yield
        return
    sharing = _Sharing()
    with ExitStack() as restored:
        for module in matcher.modules():
            for name, arguments in _ROW_BY_ROW.items():
                if method := getattr(module, name, None):
                    _replace(module, name, sharing.rows_of(method, arguments), restored)
            if isinstance(module, _BatchNorm):
                _replace(module, "forward", sharing.with_all_rows(module.forward), restored)
        yield


def _replace(module: nn.Module, name: str, function: Callable[..., Any], restored: ExitStack) -> None:
    """Let a module have another method until `restored` ends."""
    setattr(module, name, function)
    restored.callback(delattr, module, name)


class _Sharing:
    """Turns functions of all rows into functions that compute a share of them."""

    def __init__(self) -> None:
        self._active = False  # within a function that has a share of the rows already

    def rows_of(self, method: Callable[..., Any], arguments: int) -> Callable[..., Any]:
        """Share the rows of the first arguments, and gather those of the result."""

        def shared(*given: Any) -> Any:
            count = _rows(given[0])
            if self._active or count < processes():
                return method(*given)
            sizes = _shares(count)
            start = sum(sizes[: distributed.get_rank()])
            chosen = torch.arange(start, start + sizes[distributed.get_rank()])
            mine = [_take(each, chosen) for each in given[:arguments]]
            with self._apart():
                return _gather_all(method(*mine, *given[arguments:]), sizes)

        return shared

    def with_all_rows(self, forward: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """Give a layer the rows of all processes, and return those of this one."""

        def whole(rows: Tensor) -> Tensor:
            if not self._active:
                return forward(rows)
            lengths = torch.zeros(processes(), dtype=torch.int64)
            lengths[distributed.get_rank()] = len(rows)
            distributed.all_reduce(lengths)
            sizes = lengths.tolist()
            return torch.split(forward(gather(rows, sizes)), sizes)[distributed.get_rank()]

        return whole

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Draw random numbers, such as those of dropout, that no other process draws."""
        seed = int(torch.randint(2**62, ())) + distributed.get_rank()
        devices = [torch.cuda.current_device()] if _on_gpu() else []
        self._active = True
        try:
            with torch.random.fork_rng(devices):
                torch.manual_seed(seed)
                yield
        finally:
            self._active = False


def _shares(count: int) -> list[int]:
    """How many of so many rows each process computes."""
    each, more = divmod(count, processes())
    return [each + (rank < more) for rank in range(processes())]


def _rows(given: Any) -> int:
    return len(given[0]) if isinstance(given, tuple | list) else len(given)


def _take(given: Any, chosen: Tensor) -> Any:
    """The chosen rows of a tensor, of sentences, or of each of several tensors."""
    if isinstance(given, Tensor):
        return given[chosen[0] : chosen[-1] + 1]
    if isinstance(given, Sentences):
        return given.take(chosen.to(given.lengths.device))
    return type(given)(_take(each, chosen) for each in given)


def _gather_all(result: Any, sizes: list[int]) -> Any:
    if isinstance(result, tuple):
        return tuple(gather(each, sizes) for each in result)
    return gather(result, sizes)


def gather(rows: Tensor, sizes: list[int]) -> Tensor:
    """Return the rows of all processes one below the other; gradients flow back to all.

    Args:
        rows: of this process, (sizes[rank], …).
        sizes: how many rows each process has.
    """
    return cast(Tensor, _Gather.apply(rows, sizes))  # type: ignore[no-untyped-call]


class _Gather(torch.autograd.Function):
    """Every process computes the loss: the gradients of a row are summed here, and the mean comes later."""

    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes  # type: ignore[attr-defined]
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
    """Take the GPU of this process's number on its machine."""
    if not _on_gpu():
        return
    if torch.device(default_device()).index is not None:
        raise SeesayError(
            f"--device {default_device()}: several processes take a GPU each; omit it, or name cuda or cpu."
        )
    number, there = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= there:
        raise SeesayError(f"--devices: this machine has {there} GPUs, and process {number + 1} finds none.")
    choose_device(f"cuda:{number}")
    torch.cuda.set_device(number)
