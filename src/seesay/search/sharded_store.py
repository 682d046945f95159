"""What searches read of an index in shards: the items and vectors of all of them."""
# ruff: noqa: D102 — the methods are those of `Store`

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.detector import Detection
from seesay.search.filters import EVERYTHING, Filter
from seesay.search.roots import Root
from seesay.search.sqlite_file import Kind
from seesay.search.store import Changes, Facts, Item, State, Store

_ALL = 1 << 60

_WithId = TypeVar("_WithId", Item, Facts)


def _sum(counts: Iterable[dict[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for each in counts:
        total.update(each)
    return total


class ShardedStore:
    """The stores of all shards of an index, to read as one `Store`.

    Item `i` of shard `s` of `n`, from 0, has the id `i * n + s`.

    Args:
        path: where an index without shards has its file; none exists there.
        stores: of the shards, in order.
    """

    shard = 0, 1

    def __init__(self, path: Path, stores: Sequence[Store]) -> None:
        self.path, self._stores = path, stores
        self.meta, self.dim = stores[0].meta, stores[0].dim

    def _whole(self, number: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return ids * len(self._stores) + number

    def _with_id(self, number: int, found: _WithId) -> _WithId:
        return replace(found, id=found.id * len(self._stores) + number)

    def _of_each(self, ids: Sequence[int]) -> Iterator[tuple[int, Store, list[int]]]:
        """Yield the number of each shard, its store, and the ids there."""
        count = len(self._stores)
        for number, store in enumerate(self._stores):
            yield number, store, [id_ // count for id_ in ids if id_ % count == number]

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def check_in_place(self) -> None:
        for store in self._stores:
            store.check_in_place()

    def generation(self) -> int:
        return sum(store.generation() for store in self._stores)

    # Those of the shard with the most folders: others may be new, or have lost one in a call that was killed.

    def roots(self) -> list[Root]:
        return max((store.roots() for store in self._stores), key=len)

    def not_read(self) -> dict[str, int]:
        return max(self._stores, key=lambda store: len(store.roots())).not_read()

    def background(self) -> str | None:
        """Return a text that changes with the gallery of any shard; each has that of its own images."""
        each = [store.background() or "" for store in self._stores]
        return f"of shards: {' '.join(each)}" if any(each) else None

    def count(self, kind: Kind) -> int:
        return sum(store.count(kind) for store in self._stores)

    def items(self, ids: Sequence[int] | None = None) -> dict[int, Item]:
        found = [store.items(None if ids is None else own) for _, store, own in self._of_each(ids or ())]
        return self._by_id(found)

    def facts(self, ids: Sequence[int]) -> dict[int, Facts]:
        return self._by_id([store.facts(own) for _, store, own in self._of_each(ids)])

    def _by_id(self, found: Sequence[dict[int, _WithId]]) -> dict[int, _WithId]:
        whole = (self._with_id(number, each) for number, shard in enumerate(found) for each in shard.values())
        return {each.id: each for each in whole}

    def newest(
        self, count: int, where: Filter = EVERYTHING, after: tuple[str, int] | None = None
    ) -> list[Facts]:
        pages = list[Facts]()
        for number, store in enumerate(self._stores):
            # In this shard, ids below (id - number) / shards come after that place.
            behind = after and (after[0], -((number - after[1]) // len(self._stores)))
            pages += [self._with_id(number, each) for each in store.newest(count, where, behind)]
        return sorted(pages, key=lambda each: (each.time, each.id), reverse=True)[:count]

    def months(self, where: Filter = EVERYTHING) -> dict[str, int]:
        total = _sum(store.months(where) for store in self._stores)
        return dict(sorted(total.items(), reverse=True))

    def folders(self, limit: int = 1000) -> dict[str, int]:
        return dict(sorted(_sum(store.folders(_ALL) for store in self._stores).most_common(limit)))

    def vector(self, id_: int) -> NDArray[np.float32] | None:
        number = id_ % len(self._stores)
        return self._stores[number].vector(id_ // len(self._stores))

    def vectors(self, ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        shards = [(number, *store.vectors(own)) for number, store, own in self._of_each(ids)]
        there = np.concatenate([self._whole(number, own) for number, own, _ in shards])
        order = np.argsort(there)
        return there[order], np.concatenate([rows for *_, rows in shards])[order]

    def objects(self, ids: Sequence[int], names: Sequence[str]) -> dict[int, list[Detection]]:
        shards = [(number, store.objects(own, names)) for number, store, own in self._of_each(ids)]
        return {
            id_ * len(self._stores) + number: seen for number, some in shards for id_, seen in some.items()
        }

    def paths(self, root: Root) -> dict[str, int]:
        return {path: size for store in self._stores for path, size in store.paths(root).items()}

    def skipped(self) -> dict[str, tuple[State, str]]:
        return {path: why for store in self._stores for path, why in store.skipped().items()}

    def changes(self, kind: Kind) -> Changes:
        found = [store.changes(kind) for store in self._stores]
        alive = np.sort(np.concatenate([self._whole(i, each.alive) for i, each in enumerate(found)]))
        return Changes(sum(each.generation for each in found), alive, alive)


AnyStore = Store | ShardedStore
"""What searches read."""
