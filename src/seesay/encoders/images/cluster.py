"""Work on a Ray cluster: workers read, decode and encode, and only this process writes what they return.

Ray Data restarts the blocks of lost nodes on other nodes. Each block reaches this process exactly once.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError, first_line, naming_extras

_BLOCK = 32  # images that a worker takes at a time
PART = 65_536  # images that Ray is given at a time, for which it takes about 120 MB
_SECONDS = 5  # within which a cluster's address must answer

_OUR_ERROR = f"{SeesayError.__module__}.{SeesayError.__name__}: "  # before its message, in a traceback

Columns = dict[str, NDArray[Any]]
Work = Callable[[Columns], Iterable[Any]]


def done_on_cluster(
    address: str,
    work: Callable[[Any], Work],
    shared: object,
    items: Iterable[dict[str, Any]],
    uses_gpu: bool,
) -> Iterator[list[Any]]:
    """Yield the results of workers for blocks of items, as lists.

    `work` is called on each node with `shared`, and returns the function that does a block. Ray is given
    65,536 items, rows of columns, at a time. With `uses_gpu`, a worker takes a GPU if the cluster has any.

    An address is such as "ray://head:10001"; "auto" is the cluster of this machine, "local" one that is
    started here and ends with the call.

    Raises:
        SeesayError: there is no cluster, or all workers have failed.
        MissingExtraError: Ray is not installed.
    """
    with _cluster(address) as ray:
        resources, there, rows = ray.cluster_resources(), ray.put(shared), iter(items)
        while some := list(islice(rows, PART)):
            blocks = ray.data.from_items(some, override_num_blocks=-(-len(some) // _BLOCK)).map_batches(
                _Worker,
                fn_constructor_args=(work, there),
                batch_size=_BLOCK,
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=max(int(resources.get("CPU", 1)), 1)),
                num_gpus=1 if uses_gpu and resources.get("GPU") else None,
            )
            for block in blocks.iter_batches(batch_size=None):
                yield list(block["done"])


class _Worker:
    def __init__(self, work: Callable[[Any], Work], shared: Any) -> None:
        import ray

        self._work = work(ray.get(shared))

    def __call__(self, block: Columns) -> Columns:
        results = list(self._work(block))
        done = np.empty(len(results), object)
        for place, result in enumerate(results):  # which an assignment to the array would take apart
            done[place] = result
        return {"done": done}


def check_fingerprint(name: str, fingerprint: str, expected: str) -> None:
    """Raise a SeesayError unless a node has the weights of the calling process."""
    if fingerprint != expected:
        raise SeesayError(f"{name}: this node has other weights or another seesay; install the same.")


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Connect to a cluster, and disconnect at the end unless the process was already connected.

    Errors of workers, which Ray reports with tracebacks, become a one-line SeesayError.
    """
    with naming_extras():
        import ray
        import ray.data
    mine = not ray.is_initialized()
    if mine:
        try:
            place = urlsplit(address if "//" in address else f"//{address}")
            if place.hostname and place.port:  # where nothing answers, Ray would try for five minutes
                socket.create_connection((place.hostname, place.port), timeout=_SECONDS).close()
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except Exception as failure:  # Ray raises nearly anything, such as a bare Exception
            raise SeesayError(
                f"--cluster {address}: no cluster there ({first_line(failure)}); start one with "
                "`ray start --head`, or omit the option."
            ) from failure
    context = ray.data.DataContext.get_current()
    shown, context.enable_progress_bars = context.enable_progress_bars, False
    try:
        yield ray
    except ray.exceptions.RayError as failure:
        lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
        reason = lines[-1] if lines else type(failure).__name__
        raise SeesayError(
            f"--cluster {address}: a worker failed ({reason.removeprefix(_OUR_ERROR)[:500]}); run the "
            f"same command again to continue."
        ) from failure
    finally:
        context.enable_progress_bars = shown
        if mine:
            ray.shutdown()
