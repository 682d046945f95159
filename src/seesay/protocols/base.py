"""The base class of protocols, which measure a split, and their results."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, PrivateAttr, StrictFloat, StrictInt, ValidationError

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RESAMPLES, Interval, Sample, intervals, mean_metrics
from seesay.metrics.grounding_recall import IoU, PhraseBoxes
from seesay.metrics.significance import SWAPS, PairedTest, compare
from seesay.registry import Registry
from seesay.settings import describe

if TYPE_CHECKING:
    from seesay.data.corpus import Corpus
    from seesay.protocols.subject import Subject

Value: TypeAlias = int | float | None  # of a metric; counts are whole
Metrics: TypeAlias = Mapping[str, Value]  # by name
Samples = Sequence[tuple[str, Sequence[Sample]]]  # of each part of a result: its name, a sample per fold

_T = TypeVar("_T", bound="type[Protocol[Any]]")
_S = TypeVar("_S", bound="Subject")


class Comparison(BaseModel):
    """A paired comparison with another result: by metric, this result's value minus the other's.

    Attributes:
        name: the name of the other result.
        metrics: the tests, by metric.
        resamples: the bootstrap draws behind each 95 % interval.
        swaps: the random swaps behind each p-value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    metrics: dict[str, PairedTest]
    resamples: int
    swaps: int


class CorpusContent(BaseModel):
    """What a split holds, by which results of other images or sentences are told apart.

    Attributes:
        images: their number.
        sentences: their number; None if phrases are measured.
        phrases: the number of phrases with boxes; None if sentences are measured.
        digest: of the texts and boxes of every image, in any order of images and texts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    images: int
    sentences: int | None = None
    phrases: int | None = None
    digest: str

    @classmethod
    def of(cls, corpus: Corpus) -> CorpusContent:
        """Count and digest the images and sentences of a split."""
        texts: list[list[str]] = [[] for _ in corpus.images]
        for sentence in corpus.sentences:
            texts[sentence.image].append(repr((sentence.text, sentence.boxes)))
        digest = hashlib.blake2b(repr(sorted(map(sorted, texts))).encode(), digest_size=8).hexdigest()
        count = {"phrases" if corpus.has_boxes else "sentences": len(corpus.sentences)}
        return cls(images=len(corpus.images), **count, digest=digest)

    def __str__(self) -> str:
        """Return both numbers in words."""
        texts = f"{self.sentences:,} sentences" if self.phrases is None else f"{self.phrases:,} phrases"
        return f"{self.images:,} images, {texts}"


class Result(BaseModel):
    """The metrics that a protocol measured on a split.

    Attributes:
        protocol: its name.
        split: the name of the split.
        about: what was measured: numbers of images and sentences, conventions, costs.
        content: what the split held.
        metrics: by name. Metrics of a part, such as a kind of phrases or a baseline, begin with its name:
            `people: R@1`. `S R@1` is for sentence retrieval, `I R@1` for image retrieval.
        notes: lines that explain the metrics.
        intervals: 95 % bootstrap intervals of metrics.
        resamples: the bootstrap draws behind each interval.
        against: the comparison with another result.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    protocol: str
    split: str
    about: dict[str, JsonValue] = {}
    content: CorpusContent | None = None
    metrics: dict[str, StrictInt | StrictFloat | None]
    notes: list[str] = []
    intervals: dict[str, Interval | None] = {}
    resamples: int | None = None
    against: Comparison | None = None

    _samples: Samples = PrivateAttr(default=())  # the values of each query, which `compare` needs

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Read a result from JSON values.

        Raises:
            SeesayError: the protocol is unknown, or a key is missing, unknown or has a wrong value.
        """
        if not isinstance(values, Mapping):
            raise SeesayError("not a JSON object.")
        PROTOCOLS[str(values.get("protocol"))]  # raises for an unknown one
        try:
            return cls.model_validate(values)
        except ValidationError as failure:
            raise SeesayError(describe(failure, cls)) from failure

    @property
    def shown(self) -> Metrics:
        """The metrics that a table of several results shows."""
        columns = PROTOCOLS[self.protocol].columns or [name for name in self.metrics if ": " not in name]
        return {name: self.metrics.get(name) for name in columns}

    @property
    def rows(self) -> dict[str, Metrics]:
        """The metrics of each part by name, in order; the name of the whole result is empty."""
        rows: dict[str, dict[str, Value]] = {}
        for name, value in self.metrics.items():
            part, _, metric = name.rpartition(": ")
            rows.setdefault(part, {})[metric] = value
        return {**rows}

    @property
    def monitor(self) -> float:
        """The metric that training watches; higher is better. 0 if it was not measured."""
        return self.metrics.get(PROTOCOLS[self.protocol].monitor) or 0.0

    def to_dict(self, uncertainty: bool = True) -> dict[str, Any]:
        """Return the result as JSON-ready values.

        Args:
            uncertainty: include notes, intervals and the comparison, which recorded rows omit.
        """
        left_out = set() if uncertainty else {"notes", "intervals", "resamples", "against"}
        return self.model_dump(mode="json", exclude_defaults=True, exclude=left_out)

    def compare(self, other: Result, name: str = "other", seed: int = 0) -> Comparison:
        """Compare with another result on the same queries, by paired bootstrap and randomization.

        Raises:
            SeesayError: the results have different protocols, images or queries, or were read from a file.
        """
        if self.protocol != other.protocol:
            raise SeesayError(f"protocols '{self.protocol}' and '{other.protocol}' cannot be compared.")
        if self.content and other.content and self.content != other.content:
            raise SeesayError(
                f"protocol '{self.protocol}': measured on {self.content}, and on {other.content}, which are "
                "not the same; a paired comparison needs the same queries."
            )
        mine, theirs = self._samples, other._samples
        if not mine or [part for part, _ in mine] != [part for part, _ in theirs]:
            raise SeesayError(
                f"protocol '{self.protocol}': a paired comparison needs per-query values of both "
                f"results; measure both again."
            )
        tests: dict[str, PairedTest] = {}
        for (part, ours), (_, others) in zip(mine, theirs, strict=True):
            found = compare(ours, others, seed=seed)
            tests |= of_part(part, {name: test.rounded() for name, test in found.items()})
        return Comparison(name=name, metrics=tests, resamples=RESAMPLES, swaps=SWAPS)

    def __str__(self) -> str:
        """Return a small table: each metric of `shown` with its interval."""
        row = self.shown
        width = max(map(len, row), default=0)
        lines = [f"{self.protocol}, {self.split}" + (f": {self.content}" if self.content else "")]
        for name, value in row.items():
            interval = self.intervals.get(name)
            ends = f"  [{interval.low:.1f}, {interval.high:.1f}]" if interval else ""
            lines.append(f"{name:{width}} {'–' if value is None else f'{value:.1f}':>7}{ends}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Options:
    """Options of protocols.

    Attributes:
        iou: for grounding, see `grounding_recall`.
        boxes: for grounding, see `grounding_recall`.
        resamples: the number of bootstrap draws for intervals; 0 for none.
    """

    iou: IoU = "plummer"
    boxes: PhraseBoxes = "merged"
    resamples: int = 0


class Protocol(ABC, Generic[_S]):
    """A way to measure a split, given as a `Subject` or, if it needs a run, a `RunSubject`.

    Attributes:
        name: the name in tables and on the command line.
        needs: what the subject must provide: "scores" of all pairs, a "run", or "phrases" with boxes and a
            run that grounds them.
        monitor: the metric that training watches.
        columns: the metrics that a table of several results shows; by default those of the whole result.
        metrics: of the whole result, without options; empty if they are not known before it is measured.
        images: the number of images that it requires; None for any.
    """

    name: ClassVar[str]
    needs: ClassVar[Literal["scores", "run", "phrases"]] = "scores"
    monitor: ClassVar[str] = "mR"
    columns: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = ()
    images: ClassVar[int | None] = None

    @abstractmethod
    def measure(self, subject: _S, options: Options) -> Result:
        """Measure the subject.

        Raises:
            SeesayError: the protocol cannot measure it, or a score is NaN.
        """

    def result(
        self,
        subject: Subject,
        options: Options,
        samples: Samples,
        about: Mapping[str, JsonValue],
        metrics: Metrics | None = None,
        notes: Sequence[str] = (),
    ) -> Result:
        """Build a result from the metrics of samples and their intervals.

        Args:
            subject: what was measured.
            options: the options of the measurement.
            samples: of each part, "" for the whole result.
            about: see `Result`.
            metrics: further metrics, which have no intervals.
            notes: see `Result`.
        """
        found: dict[str, Value] = {}
        ends: dict[str, Interval | None] = {}
        for part, folds in samples:
            means = of_part(part, mean_metrics(folds)).items()
            found |= {name: None if value != value else round(value, 3) for name, value in means}
            if options.resamples:
                exact = intervals(folds, options.resamples).items()
                ends |= of_part(part, {name: each and each.rounded() for name, each in exact})
        result = Result(
            protocol=self.name,
            split=subject.split,
            about={**about},
            content=CorpusContent.of(subject.corpus),
            metrics={**found, **(metrics or {})},
            notes=[*notes],
            intervals=ends,
            resamples=options.resamples or None,
        )
        result._samples = samples
        return result


PROTOCOLS: Registry[Protocol[Any]] = Registry(
    "protocol",
    "seesay.protocols",
    modules={
        "seesay.protocols.concepts": ["concepts"],
        "seesay.protocols.grounding": ["grounding"],
        "seesay.protocols.k_shot": ["k-shot", "0-shot", "1-shot", "2-shot", "3-shot"],
        "seesay.protocols.standard": [
            "standard",
            "shared-sentences",
            "coco-1k",
            "coco-5k",
            "sentence-to-sentence",
        ],
    },
)


def register_protocol(protocol: _T) -> _T:
    """Register a protocol class under its name, as a decorator; its constructor takes no arguments."""
    PROTOCOLS.register(protocol.name)(protocol())
    return protocol


_V = TypeVar("_V")


def of_part(part: str, metrics: Mapping[str, _V]) -> dict[str, _V]:
    """Put the name of a part before those of its metrics."""
    return {f"{part}: {name}" if part else name: value for name, value in metrics.items()}
