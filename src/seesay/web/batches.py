"""Concurrent queries, answered in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class Batches(Generic[Q, A]):
    """Answers queries in batches, without waiting for a batch to fill.

    Args:
        answer: answers a batch in order; an exception among the answers is raised for its query only.
        threads: the threads for batches.

    Attributes:
        most: the maximum number of queries in a batch.
        seconds: the time after which the next batch starts, even if the last one is not finished.
        sizes: the number of batches by their number of queries.
    """

    most = 32
    seconds = 5.0

    def __init__(self, answer: Callable[[Sequence[Q]], Sequence[A | Exception]], threads: Executor) -> None:
        self._answer, self._threads = answer, threads
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._working: asyncio.Task[None] | None = None
        self.sizes: dict[int, int] = {}

    async def ask(self, question: Q) -> A:
        """Return the answer to a query."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting[: self.most], self._waiting[self.most :]
                batch = [each for each in taken if not each[1].done()]  # some clients have disconnected
                if batch:
                    self.sizes[len(batch)] = self.sizes.get(len(batch), 0) + 1
                    await asyncio.wait([asyncio.create_task(self._settle(batch))], timeout=self.seconds)
        finally:
            self._working = None

    async def _settle(self, batch: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        questions = [question for question, _ in batch]
        answers: Sequence[A | Exception]
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, questions)
        except Exception as error:
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
