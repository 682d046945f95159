"""Batches of concurrent queries."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from seesay.web.batches import Batches


def test_batches_gather_while_one_is_at_work() -> None:
    asked: list[list[int]] = []
    going = threading.Event()

    def answer(batch: Sequence[int]) -> list[int | Exception]:
        asked.append(list(batch))
        going.wait(10)
        return [ValueError("seven") if each == 7 else each * 2 for each in batch]

    async def ask() -> list[object]:
        batches: Batches[int, int] = Batches(answer, threads)
        batches.most = 4
        tasks = [asyncio.create_task(batches.ask(i)) for i in range(8)]
        await asyncio.sleep(0.05)
        late = asyncio.create_task(batches.ask(8))
        await asyncio.sleep(0.05)
        going.set()
        return await asyncio.gather(*tasks, late, return_exceptions=True)

    with ThreadPoolExecutor(1) as threads, ThreadPoolExecutor(1) as elsewhere:
        answers = elsewhere.submit(asyncio.run, ask()).result()  # Playwright's loop may be running here
    assert answers[:7] == [0, 2, 4, 6, 8, 10, 12]
    assert str(answers[7]) == "seven"
    assert answers[8] == 16
    assert [len(batch) for batch in asked] == [4, 4, 1]


def test_a_slow_batch_holds_up_the_next_one_for_a_while_only() -> None:
    may_end = threading.Event()

    def answer(questions: Sequence[str]) -> list[str]:
        if "slow" in questions:
            assert may_end.wait(20)
        return [question.upper() for question in questions]

    async def ask(threads: ThreadPoolExecutor) -> list[str]:
        batches: Batches[str, str] = Batches(answer, threads)
        batches.seconds = 0.1
        slow = asyncio.create_task(batches.ask("slow"))
        await asyncio.sleep(0)
        quick = await asyncio.wait_for(batches.ask("quick"), 20)
        assert not slow.done()
        may_end.set()
        return [quick, await slow]

    with ThreadPoolExecutor(2) as threads:
        assert asyncio.run(ask(threads)) == ["QUICK", "SLOW"]
