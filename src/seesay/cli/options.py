"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's folder, or shipped weights: seesay-small.")
]
ImageFile = Annotated[Path, typer.Argument(metavar="IMAGE", help="An image file.")]
Entries = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...",
        help="A run's folder, or shipped weights: seesay-small. Or another model's results on the split, in "
        "the order of the corpus: a score matrix (images, sentences), SCORES.npy, or embeddings, "
        "IMAGES.npy,SENTENCES.npy.",
    ),
]
CombineOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Measure several RUNs as one: mean (of standardised scores), rank (reciprocal rank fusion), or "
        "learned (a mean with weights chosen on val; name score files scores-{split}.npy).",
    ),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        metavar="RUN", help="Compare with this one on the same queries: differences, intervals, p-values."
    ),
]
DataOption = Annotated[Path, typer.Option("--data", help="The corpus: a folder, or its JSON, CSV or tar.")]
FormatOption = Annotated[
    str | None, typer.Option("--format", help="The corpus's format, if it is not recognised.")
]
ImagesOption = Annotated[
    Path | None, typer.Option("--images", help="The folder of the phrases' images, if they are elsewhere.")
]
ChangeOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe.")
]
SplitOption = Annotated[str, typer.Option(help="train, val or test.")]
ProtocolOption = Annotated[
    str | None,
    typer.Option(
        help="standard, coco-1k, coco-5k, graded, agreement, image-to-image, sentence-to-sentence, "
        "composition, k-shot (or one K: 0-shot to 3-shot); grounding for phrases; concepts or "
        "concepts-regions for a run of concepts."
    ),
]
JudgementsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Agreement: human judgements of pairs; ExpertAnnotations.txt, CrowdFlowerAnnotations.txt.",
    ),
]
AnswersOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Graded: right answers as JSON, a query's name to a list of its answers' names."
    ),
]
RecordOption = Annotated[
    Path | None, typer.Option(help="Also record the result in CORPUS.jsonl in this folder.")
]
IouOption = Annotated[
    Literal["plummer", "mdetr"] | None,
    typer.Option(
        help="Grounding: whose IoU; plummer (default) adds a pixel to each side of inclusive boxes, mdetr "
        "takes the annotated coordinates as they are."
    ),
]
BoxesOption = Annotated[
    Literal["merged", "any"] | None,
    typer.Option(
        help="Grounding: the ground truth of a phrase of several boxes is their enclosing box (merged, the "
        "default) or any of them."
    ),
]
PlotOption = Annotated[
    Path | None, typer.Option(help="K-shot: also draw mR by word frequency, as a PNG file.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CountOption = Annotated[int, typer.Option("-k", min=1, max=1000, help="Number of results.")]
GroundRun = Annotated[
    str, typer.Option(metavar="RUN", help="The run of a grounding recipe that finds the phrases.")
]
RerankOption = Annotated[
    str | None,
    typer.Option(metavar="RUN", help="Re-rank the best results by this run, such as a pair matcher's."),
]
ShortlistOption = Annotated[
    int, typer.Option(min=1, help="With --rerank: how many of the best are re-ranked, at least -k.")
]
IndexFolder = Annotated[Path, typer.Argument(metavar="INDEX", help="The index's folder.")]

NOTHING_FOUND = 1  # exit code
HERE = Path()
GROUND_RUN = "seesay-ground"
SHORTLIST = 100
DEFAULT_RUNS = Path("runs")
