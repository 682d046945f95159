"""Functions of PyTorch that ONNX lacks, from others that it has, for as long as a matcher is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from seesay.matchers.sentences import word_places

_EMPTY = {"max": -torch.inf, "min": torch.inf, "sum": 0.0}


class Traceable(TorchFunctionMode):
    """Replaces, in its context, functions on sequences laid end to end by ones that pad them.

    The lengths of sequences stay tensors, so that a traced graph takes batches of any lengths. What is not
    replaced is called as it is.

    Example:
        >>> with Traceable():
        ...     torch.repeat_interleave(torch.tensor([4, 5, 6]), torch.tensor([2, 1, 3]))
        tensor([4, 4, 5, 6, 6, 6])
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the replacement of a function, or the function itself."""
        return _REPLACED.get(func, func)(*args, **(kwargs or {}))


def _repeat_interleave(
    values: Tensor, repeats: Tensor | int | None = None, dim: int | None = None, **options: Any
) -> Tensor:
    """Repeat each of the values as often as `repeats` (n,) says, along the first axis."""
    if not isinstance(repeats, Tensor) or repeats.ndim != 1 or (values.ndim > 1 and dim != 0):
        return torch.repeat_interleave(values, repeats, dim, **options)  # type: ignore[arg-type]
    there = word_places(repeats)[1]
    return values[there.nonzero()[:, 0]]


def _segment_reduce(data: Tensor, reduce: str, **options: Any) -> Tensor:
    """Reduce the rows (total, d) of sequences of the given lengths to one a sequence, (m, d)."""
    lengths = options.get("lengths")
    if lengths is None or reduce not in _EMPTY or options.get("axis", 0) != 0:
        found: Tensor = torch.segment_reduce(data, reduce, **options)
        return found
    places, there = word_places(lengths)
    there = there.reshape(*there.shape, *[1] * (data.ndim - 1))
    padded = data[places].masked_fill(~there, _EMPTY[reduce])
    if reduce == "sum":
        return padded.sum(dim=1)
    return padded.amax(dim=1) if reduce == "max" else padded.amin(dim=1)


def _embedding_bag(
    rows: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sum or average the embeddings of bags: rows (m, t), or (total,) that begin at `offsets` (m,)."""
    unusual = max_norm is not None or per_sample_weights is not None or include_last_offset
    if unusual or mode == "max" or (offsets is not None and padding_idx is not None):
        options = (max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights)
        return functional.embedding_bag(rows, weight, offsets, *options, include_last_offset, padding_idx)
    if offsets is None:
        there = torch.ones_like(rows, dtype=torch.bool) if padding_idx is None else rows != padding_idx
    else:
        ends = torch.cat([offsets[1:], torch.as_tensor(rows.shape[0], device=rows.device)[None]])
        places, there = word_places(ends - offsets)
        rows = rows[places]
    total = (functional.embedding(rows, weight) * there[..., None].to(weight.dtype)).sum(dim=1)
    if mode == "sum":
        return total
    return total / there.sum(dim=1).clamp(min=1)[:, None].to(weight.dtype)


_REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.repeat_interleave: _repeat_interleave,
    Tensor.repeat_interleave: _repeat_interleave,
    torch.segment_reduce: _segment_reduce,
    functional.embedding_bag: _embedding_bag,
}
