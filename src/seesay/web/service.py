"""The index and the matcher behind the API, and the threads that they work in."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from seesay.search.embedder import Embedder
from seesay.search.index import Index
from seesay.web.limits import Limits

T = TypeVar("T")


@dataclass(frozen=True)
class Service:
    """What every route needs; as many questions are worked on at once as there are cores."""

    index: Index
    embedder: Embedder
    limits: Limits
    _limiter: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(os.cpu_count() or 1))

    async def run(self, work: Callable[[], T]) -> T:
        """Does blocking work in a thread; a request that ran out of time does not wait for its end."""
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)

    async def timed(self, work: Callable[[], T]) -> tuple[T, float]:
        """The same, with the milliseconds that the work itself took."""

        def clocked() -> tuple[T, float]:
            started = time.perf_counter()
            return work(), round((time.perf_counter() - started) * 1e3, 3)

        return await self.run(clocked)
