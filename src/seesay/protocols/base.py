"""Protocols, which measure a split, and their results."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PrivateAttr, ValidationError, model_validator

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import LEVEL, RESAMPLES, Keys, Sample, intervals, mean_metrics
from seesay.metrics.grounding_recall import Boxes, IoU
from seesay.metrics.paired_test import SWAPS, compare
from seesay.metrics.recall import METRICS, metric_names
from seesay.registry import Registry
from seesay.settings import describe

if TYPE_CHECKING:
    from seesay.data.judgements import Judgements
    from seesay.protocols.subject import AnySubject, Subject

Percent = Annotated[float, Field(ge=0, le=100)]
Interval = Annotated[tuple[float, float], Field(strict=False)]
Samples = Sequence[tuple[Keys, Sequence[Sample]]]  # of each part of a result, by its keys, a sample a fold

_UNCERTAINTY = ("intervals", "against", "members")  # the keys of a result that recorded rows leave out

_RECALL = re.compile(r"R@[1-9][0-9]*")
_T = TypeVar("_T", bound="type[Protocol]")
_V = TypeVar("_V")


class ResultPart(BaseModel):
    """A part of a result, validated strictly; fields have the keys of the JSON as aliases."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


class Difference(ResultPart):
    """The difference of two results in one metric, this one's minus `theirs`."""

    theirs: float | None
    difference: float | None
    interval: Interval | None
    p: float | None


class Intervals(ResultPart):
    """Percentile intervals by metric, see `Result.named`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Interval | None]

    level: int
    resamples: int


class Comparison(ResultPart):
    """A paired comparison with another result, the differences by metric, see `Result.named`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Difference]

    name: str
    level: int
    resamples: int
    swaps: int

    def difference(self, metric: str) -> Difference | None:
        """Return the difference of a metric; None if it was not compared."""
        return self.__pydantic_extra__.get(metric)


class Direction(ResultPart):
    """Recalls in percent and the median rank of one direction of retrieval; R@K of further K are extra."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Percent]

    r1: Percent = Field(alias="R@1")
    r5: Percent = Field(alias="R@5")
    r10: Percent = Field(alias="R@10")
    median_rank: float = Field(alias="Med r", ge=1)

    @model_validator(mode="after")
    def _further_are_recalls(self) -> Self:
        if wrong := [key for key in self.__pydantic_extra__ if not _RECALL.fullmatch(key)]:
            raise ValueError(f"no such key '{wrong[0]}'; further recalls are R@K")
        return self

    def names(self) -> tuple[str, ...]:
        """Return the names of its metrics, in order."""
        return metric_names(int(key.removeprefix("R@")) for key in self.__pydantic_extra__)


Cell: TypeAlias = str | float | None  # text, or a number that is shown with one decimal


@dataclass(frozen=True)
class PlainTable:
    """A table of a result: the column names, the cells of each row, and a title."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str | None = None


@dataclass(frozen=True)
class Details:
    """What a table of a result shows beside its metrics.

    Attributes:
        before: rows above the result's own, by their label.
        after: rows below it.
        tables: those to show in place of the one of the metrics.
        notes: lines below the table.
        label: of the result's own row.
    """

    before: Mapping[str, ResultPart] = field(default_factory=dict)
    after: Mapping[str, ResultPart] = field(default_factory=dict)
    tables: Sequence[PlainTable] = ()
    notes: Sequence[str] = ()
    label: str = "measured"


class Result(ResultPart):
    """The metrics that a protocol measured on a split.

    A protocol's own result adds its metrics as fields, and names in `metric_names`, or with their places in
    `metric_keys`, those that a table shows.

    Attributes:
        monitor_metric: the one that training watches.
        metric_names: those that are fields by that name.
        identity: the keys of its own that recorded rows of one run may differ in.
    """

    monitor_metric: ClassVar[str] = "mR"
    metric_names: ClassVar[tuple[str, ...]] = ()
    identity: ClassVar[tuple[str, ...]] = ()

    protocol: str
    split: str
    notes: list[str] | None = None
    combined: str | None = None
    weights: dict[str, float] | None = None
    members: dict[str, dict[str, JsonValue]] | None = None  # of an ensemble, each alone, as `to_dict`
    cut_sentences: int | None = Field(None, ge=0)
    max_length: int | None = Field(None, ge=1)
    intervals: Intervals | None = None
    against: Comparison | None = None

    _samples: Samples = PrivateAttr(default=())

    def metric_keys(self) -> dict[str, Keys]:
        """Return the metrics that a table shows and the place of each in `to_dict`."""
        return {name: (name,) for name in self.metric_names}

    @property
    def metrics(self) -> dict[str, float | None]:
        """The metrics that a table shows, by name."""
        values = self.to_dict()
        return {name: _at(values, keys) for name, keys in self.metric_keys().items()}

    @property
    def monitor(self) -> float:
        """The metric that training watches; higher is better."""
        return self.metrics.get(self.monitor_metric) or 0.0

    def details(self) -> Details:
        """Return what a table shows beside the metrics."""
        return Details()

    def interval(self, metric: str) -> tuple[float, float] | None:
        """Return the interval of a metric, or None."""
        return self.intervals.__pydantic_extra__.get(metric) if self.intervals else None

    def difference(self, metric: str) -> Difference | None:
        """Return the difference of a metric from the result compared with, or None."""
        return self.against.difference(metric) if self.against else None

    def to_dict(self, uncertainty: bool = True) -> dict[str, Any]:
        """Return the result as JSON-ready values.

        Args:
            uncertainty: include intervals, comparisons and the members of an ensemble.
        """
        values = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        kept = values if uncertainty else values.keys() - _UNCERTAINTY
        return {key: values[key] for key in sorted(values, key=_UNCERTAINTY.__contains__) if key in kept}

    def compare(self, other: Result, name: str = "other", seed: int = 0) -> Comparison:
        """Compare with another result on the same queries, by paired bootstrap and randomization.

        Raises:
            SeesayError: they are results of different protocols or queries, or were read from a file.
        """
        if self.protocol != other.protocol:
            raise SeesayError(f"protocols '{self.protocol}' and '{other.protocol}' cannot be compared.")
        mine, theirs = self._samples, other._samples
        if not mine or [keys for keys, _ in mine] != [keys for keys, _ in theirs]:
            raise SeesayError(
                f"protocol '{self.protocol}': a paired comparison needs the values of each query, and these "
                "results do not both have them; measure both again."
            )
        found = {
            (*prefix, *keys): Difference(**test._asdict())
            for (prefix, ours), (_, others) in zip(mine, theirs, strict=True)
            for keys, test in compare(ours, others, seed=seed).items()
        }
        return Comparison.model_validate(
            {"name": name, "level": LEVEL, "resamples": RESAMPLES, "swaps": SWAPS} | self.named(found)
        )

    def named(self, found: Mapping[Keys, _V]) -> dict[str, _V]:
        """Return values by metric instead of by place; a metric that no table shows is named by its place."""
        names = {keys: name for name, keys in self.metric_keys().items()}
        return {names.get(keys, ": ".join(keys)): value for keys, value in found.items()}

    def with_samples(self, samples: Samples, resamples: int = 0) -> Self:
        """Return a copy with the per-query values, which `compare` needs, and intervals of so many draws."""
        update: dict[str, Intervals] = {}
        if resamples:
            found = {
                (*prefix, *keys): ends
                for prefix, folds in samples
                for keys, ends in intervals(folds, resamples).items()
            }
            about = {"level": LEVEL, "resamples": resamples}
            update["intervals"] = Intervals.model_validate(about | self.named(found))
        measured = self.model_copy(update=update)
        measured._samples = samples
        return measured

    def __str__(self) -> str:
        """Return a small table: each metric with its interval."""
        metrics = self.metrics
        width = max(map(len, metrics), default=0)
        lines = [f"{self.protocol}, {self.split}"]
        for name, value in metrics.items():
            interval = self.interval(name)
            ends = f"  [{interval[0]:.1f}, {interval[1]:.1f}]" if interval else ""
            lines.append(f"{name:{width}} {'–' if value is None else f'{value:.1f}':>7}{ends}")
        return "\n".join(lines)


class RerankCost(ResultPart):
    """The cost of re-ranking: pairs scored, and milliseconds a query once image features are computed."""

    pairs: int
    embedding_ms: float
    rerank_ms: float


class RetrievalResult(Result):
    """Both directions of retrieval: the recalls, the median ranks and mR."""

    identity = ("shortlist",)

    images: int = Field(gt=0)
    sentences: int = Field(gt=0)
    images_without_sentences: int | None = Field(None, ge=0)
    sentence_retrieval: Direction
    image_retrieval: Direction
    mean_recall: Percent = Field(alias="mR")
    alpha: float | None = None  # of a distance that regions and phrases share in
    shortlist: int | None = Field(None, gt=0)  # of a re-ranking, as are the next three
    baselines: dict[str, RetrievalResult] | None = None
    gain: float | None = None
    cost: RerankCost | None = None

    def metric_keys(self) -> dict[str, Keys]:
        """See `Result`."""
        ways = {"S": "sentence_retrieval", "I": "image_retrieval"}
        metrics = {
            f"{way} {name}": (key, name)
            for way, key in ways.items()
            for name in self.sentence_retrieval.names()
        }
        return metrics | {"mR": ("mR",)}

    def details(self) -> Details:
        """See `Result`."""
        before, cost = self.baselines or {}, self.cost
        if cost is None:
            return Details(before)
        notes = [
            f"Re-ranked: the best {self.shortlist} of each query, {cost.pairs:,} pairs; mR {self.gain:+.1f}.",
            "Once images have their features, a query takes on average "
            f"{cost.embedding_ms:.2f} ms by the embedding, and {cost.rerank_ms:.2f} ms more to be re-ranked.",
        ]
        return Details(before, notes=notes, label="re-ranked")


class RecallResult(Direction, Result):
    """The recalls of one direction, as of sentence-to-sentence retrieval."""

    model_config = ConfigDict(extra="allow")
    monitor_metric = "R@1"
    metric_names: ClassVar[tuple[str, ...]] = METRICS

    sentences: int | None = Field(None, gt=0)
    images: int | None = Field(None, gt=0)
    queries: int = Field(gt=0)

    def metric_keys(self) -> dict[str, Keys]:
        """See `Result`."""
        return {name: (name,) for name in dict.fromkeys((*self.names(), *self.metric_names))}


@dataclass(frozen=True)
class Options:
    """Options of protocols; each protocol names those that it takes.

    Attributes:
        judgements: human judgements of pairs, for agreement.
        answers: the right answers of queries by name, for graded.
        iou: for grounding, see `grounding_recall`.
        boxes: for grounding, see `grounding_recall`.
        resamples: the number of bootstrap draws for intervals; 0 for none.
        at: for protocols of retrieval: further K of R@K, besides 1, 5 and 10.
    """

    judgements: Judgements | None = None
    answers: Mapping[str, Sequence[str]] | None = None
    iou: IoU = "plummer"
    boxes: Boxes = "merged"
    resamples: int = 0
    at: tuple[int, ...] = ()


Need = Literal["scores", "embeddings", "run", "phrases"]


class Protocol(ABC):
    """A way to measure a split.

    Attributes:
        name: the name in recipes, tables and on the command line.
        summary: one line of help.
        needs: what the subject must have: "scores" of all pairs, "embeddings" whose inner products are the
            scores, a "run", or "phrases" with boxes and a run that grounds them.
        result_type: the class of its results.
        options: the names of the `Options` that it takes.
        images: the number of images that it is defined for; None for any.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[Need] = "scores"
    result_type: ClassVar[type[Result]]
    options: ClassVar[tuple[str, ...]] = ()
    images: ClassVar[int | None] = None

    @abstractmethod
    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure the subject.

        Raises:
            SeesayError: the protocol cannot measure it, or a score is NaN.
        """

    def result(self, subject: AnySubject, options: Options, samples: Samples, **values: object) -> Result:
        """Build a result from `values`, the metrics of un-keyed samples, and intervals.

        `values` are by alias or field name.
        """
        found: dict[str, object] = {"protocol": self.name, "split": subject.split}
        for prefix, folds in samples:
            found |= {} if prefix else rounded_metrics(folds)
        return self.result_type.model_validate(found | values).with_samples(samples, options.resamples)


PROTOCOLS: Registry[Protocol] = Registry("protocol", "seesay.protocols", package="seesay.protocols")


def register_protocol(protocol: _T) -> _T:
    """Register a protocol class, which needs no arguments, under its name."""
    PROTOCOLS.register(protocol.name)(protocol())
    return protocol


def read_result(values: Mapping[str, Any]) -> Result:
    """Read a result from JSON values, by the protocol that they name.

    Raises:
        SeesayError: no such protocol, or a key is missing, unknown or has a wrong value; says which.
    """
    result_type = PROTOCOLS[str(values.get("protocol"))].result_type
    try:
        return result_type.model_validate(values)
    except ValidationError as failure:
        raise SeesayError(describe(failure, result_type)) from failure


def rounded_metrics(folds: Sequence[Sample]) -> dict[str, object]:
    """Return the metrics averaged over folds, nested as in a result: to three decimals, None for NaN."""
    nested: dict[str, Any] = {}
    for (*parents, last), value in mean_metrics(folds).items():
        place = nested
        for key in parents:
            place = place.setdefault(key, {})
        place[last] = None if value != value else round(value, 3)
    return nested


def _at(values: Any, keys: Keys) -> Any:
    for key in keys:
        if not isinstance(values, Mapping) or key not in values:
            return None
        values = values[key]
    return values
