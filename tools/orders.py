"""Claims of order between recipes: the differences of recorded rows with the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seesay.errors import SeesayError
from seesay.results.formats import Table
from seesay.results.published import PublishedRow, find_published
from seesay.results.records import Row, repetitions
from tools.variants import is_called

LEVEL = 0.95


@dataclass(frozen=True)
class Order:
    """By how much a recipe is above another, over pairs of runs that share a seed.

    Attributes:
        lower: the recipe that is claimed to be below.
        higher: the recipe that is claimed to be above.
        differences: higher minus lower for each pair of runs, by ascending seed.
        interval: the 95 % confidence interval of their mean, by Student's t.
        p: the p-value of the paired t-test, two-sided.
    """

    lower: str
    higher: str
    differences: tuple[float, ...]
    interval: tuple[float, float]
    p: float

    @classmethod
    def from_differences(cls, lower: str, higher: str, differences: Sequence[float]) -> Order:
        """Compute the interval and the p-value of at least two differences."""
        from scipy.special import stdtr, stdtrit

        mean, freedom = float(np.mean(differences)), len(differences) - 1
        error = float(np.std(differences, ddof=1) / np.sqrt(len(differences)))
        reach = float(stdtrit(freedom, (1 + LEVEL) / 2) * error)
        p = float(2 * stdtr(freedom, -abs(mean) / error)) if error else float(mean == 0)
        return cls(lower, higher, tuple(differences), (mean - reach, mean + reach), p)

    @property
    def mean(self) -> float:
        """The mean difference."""
        return float(np.mean(self.differences))

    def cells(self) -> list[str]:
        """The mean and its interval, as a table shows them."""
        return [f"{self.mean:+.1f}", f"{self.interval[0]:+.1f} to {self.interval[1]:+.1f}"]


def holm(values: Sequence[float]) -> list[float]:
    """Return the p-values of several tests, corrected by Holm's method.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(values)
    corrected = np.empty(len(values))
    corrected[order] = np.maximum.accumulate(np.sort(values) * np.arange(len(values), 0, -1))
    return [float(p) for p in corrected.clip(max=1).round(12)]


def paired_order(rows: Sequence[Row], lower: str, higher: str, column: str = "mR") -> Order:
    """Compare two recipes by their rows of the same seeds.

    The interval shows how much the difference depends on training. `seesay evaluate --against` shows, for two
    runs, how much it depends on the choice of test images.

    Args:
        rows: the rows of one split and protocol.
        lower: a recipe's name, for its rows without changes; for changed ones `RECIPE:KEY=VALUE`, or their
            name in a shipped table.
        higher: the same for the other recipe.
        column: the figure that is compared.

    Raises:
        SeesayError: fewer than two seeds have a row of both.
    """
    found = [_by_seed(rows, name, column) for name in (lower, higher)]
    seeds = sorted(found[0].keys() & found[1].keys())
    if len(seeds) < 2:
        raise SeesayError(
            f"'{lower}' and '{higher}' have {len(seeds)} seeds in common; a claim of order needs two."
        )
    return Order.from_differences(lower, higher, [found[1][seed] - found[0][seed] for seed in seeds])


def read_claims(text: str) -> list[tuple[str, str]]:
    """Return the lower and the higher name of each claim of order in a text.

    >>> read_claims("a<b,b<c")
    [('a', 'b'), ('b', 'c')]
    """
    return [(lower, higher) for lower, _, higher in (claim.partition("<") for claim in text.split(","))]


def orders_table(
    rows: Sequence[Row],
    claims: Sequence[tuple[str, str]],
    split: str = "test",
    protocol: str = "standard",
    metrics: str = "mR",
    beside: str | None = None,
) -> str:
    """Return claims of order, each a lower and a higher recipe, with their differences as a Markdown table.

    A changed recipe is named as in a shipped table, or written `RECIPE:KEY=VALUE`. Each of several metrics,
    separated by commas, has lines of its own, and its p-values are corrected for the number of claims by
    Holm's method. `beside` is a corpus for which papers print results of the same systems, whose differences
    are also shown.

    Raises:
        SeesayError: two recipes have fewer than two seeds in common.
    """
    chosen = [row for row in rows if (row.split, row.protocol) == (split, protocol)]
    lines, several = [], "," in metrics
    for metric in metrics.split(","):
        found = [paired_order(chosen, lower, higher, metric) for lower, higher in claims]
        corrected = holm([each.p for each in found])
        for (lower, higher), order, p in zip(claims, found, corrected, strict=True):
            above = sum(difference > 0 for difference in order.differences)
            seeds = f"{above} of {len(order.differences)}"
            line = [f"`{lower}` < `{higher}`", *([metric] if several else []), *order.cells()]
            line += [_p(order.p), _p(p), seeds]
            if beside is not None:
                printed = [_published(chosen, name, beside, protocol) for name in (lower, higher)]
                line.append(_printed_difference(printed[0], printed[1], metric))
            lines.append(line)
    tests = f"Holm, {len(claims)} tests" if len(claims) > 1 else "Holm, 1 test"
    headings = ["claim", *(["metric", "difference"] if several else [f"{metrics}, difference"])]
    headings += ["95 %", "p", tests, "seeds", *([] if beside is None else ["printed"])]
    return Table(headings, lines, words={0, 1} if several else {0}).markdown()


def falls_table(
    rows: Sequence[Row], recipes: Sequence[str], to: str, split: str = "test", metrics: str = "mR"
) -> str:
    """Return by how much recipes fall from the standard protocol to another one, as a Markdown table.

    Further lines show by how much more each falls than the last one, over runs that share a seed.

    Raises:
        SeesayError: a recipe has fewer than two seeds that were measured by both protocols.
    """
    falls = {name: _falls(rows, name, to, split, metrics) for name in recipes}
    lines = []
    for name, fall in falls.items():
        order = Order.from_differences(to, name, list(fall.values()))
        lines.append([f"`{name}`", *order.cells(), str(len(fall))])
    *others, last = recipes
    for name in others:
        seeds = sorted(falls[name].keys() & falls[last].keys())
        order = Order.from_differences(last, name, [falls[name][seed] - falls[last][seed] for seed in seeds])
        lines.append([f"`{name}` more than `{last}`", *order.cells(), str(len(seeds))])
    return Table(["recipe", f"{metrics}, fall to {to}", "95 %", "seeds"], lines).markdown()


def _falls(rows: Sequence[Row], name: str, to: str, split: str, metric: str) -> dict[int, float]:
    """By how much the figure of each seed is lower with protocol `to` than with the standard one."""
    before, after = (
        _by_seed([r for r in rows if (r.split, r.protocol) == (split, protocol)], name, metric)
        for protocol in ("standard", to)
    )
    seeds = sorted(before.keys() & after.keys())
    if len(seeds) < 2:
        raise SeesayError(f"'{name}' has {len(seeds)} seeds of both protocols; a fall needs two.")
    return {seed: before[seed] - after[seed] for seed in seeds}


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _published(rows: Sequence[Row], name: str, corpus: str, protocol: str) -> PublishedRow | None:
    """The published row of the system of that name; None if there is none."""
    origin = next(row for row in rows if is_called(row, name))
    return find_published(origin.system or origin.recipe, corpus, protocol)


def _printed_difference(lower: PublishedRow | None, higher: PublishedRow | None, measure: str) -> str:
    """By how much a published row is above another of the same table; a dash if no table has both."""
    if lower is None or higher is None or lower == higher:
        return "–"
    below, above = lower.metrics.get(measure), higher.metrics.get(measure)
    if (lower.source, lower.table) != (higher.source, higher.table) or below is None or above is None:
        return "–"
    return f"{above - below:+.1f}"


def _by_seed(rows: Sequence[Row], name: str, column: str) -> dict[int, float]:
    """The figure of the rows of that name by seed; rows with other changes do not have that name.

    If rows differ in other settings, the largest group with equal settings is taken.
    """
    own = [group for group in repetitions(rows) if any(is_called(row, name) for row in group)]
    return {
        row.seed: value
        for row in max(own, key=len, default=[])
        if (value := row.shown.get(column)) is not None
    }
