"""The functions `seesay.load`, `seesay.train` and `seesay.evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.device import checked_device, choose_device, chosen_device
from seesay.errors import naming_extras
from seesay.paths import home_expanded
from seesay.protocols.evaluate import evaluate
from seesay.recipes.load import learns_phrases, load_recipe
from seesay.runs.load import load_run
from seesay.runs.run import Run

if TYPE_CHECKING:
    from seesay.training.loop import Callback

__all__ = ["evaluate", "load", "train"]


def load(name: str | Path, device: str | None = None) -> Run:
    """Load a run: included weights by name, a run's folder, or a CLIP model.

    Args:
        name: `seesay-small`, `seesay-ground`, the folder of a trained run, or `LIBRARY:MODEL`, such as
            `open_clip:ViT-B-32/laion2b_s34b_b79k` or `open_clip:./folder`.
        device: where the matcher and the image encoders run, such as "cpu" or "cuda:1". The default is
            SEESAY_DEVICE; if that is not set, a GPU if there is one, but the CPU for an exported matcher.

    Raises:
        SeesayError: the run or device does not exist, or a file of the run is missing or damaged.

    Example:
        >>> import seesay
        >>> run = seesay.load("seesay-small")
        >>> texts = run.embed_sentences(["two dogs play in the snow", "dogs in a snowy field", "a red car"])
        >>> texts.shape == (3, run.dim)
        True
        >>> bool(texts[0] @ texts[1] > texts[0] @ texts[2])
        True
    """
    return load_run(str(name), device)


def train(
    recipe: str | Path,
    corpus: Corpus | str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    start_from: Run | str | Path | None = None,
    device: str | None = None,
    **changes: Any,
) -> Run:
    """Train a recipe's matcher on a corpus, and keep the epoch that is best on the val split.

    Args:
        recipe: the name of an included recipe (`seesay recipes` lists them), or a YAML file.
        corpus: images and sentences with a train and a val split, or phrases with boxes; opened or a path.
        out: the run's folder, which must not contain a run unless `resume` is set.
        resume: continue after the last finished epoch; the result is the same, bit for bit.
        callbacks: called during training, see `seesay.Callback`.
        start_from: a run of the same recipe, or its folder, with the initial weights. The new run keeps its
            vocabulary and its sentence encoder.
        device: where it is trained, such as "cpu" or "cuda:1". The default is SEESAY_DEVICE; if that is not
            set, a GPU if there is one.
        **changes: keys of the recipe, such as `margin=0.2`, `epochs=5` or `matcher={"dim": 256}`. A nested
            key may be given on its own if it is unambiguous.

    Raises:
        SeesayError: the recipe or key does not exist, `out` contains a run, or the corpus does not fit the
            recipe.

    Example:
        >>> import tempfile, seesay
        >>> from PIL import Image
        >>> squares = [Image.new("RGB", (64, 64), f"hsl({12 * n}, 90%, 50%)") for n in range(30)]
        >>> corpus = seesay.corpus_of([(image, "a coloured square", None) for image in squares])
        >>> run = seesay.train("irmatch-s", corpus, out=f"{tempfile.mkdtemp()}/run", margin=0.2, epochs=1,
        ...     encoders=["efficientnet-lite0"], matcher={"dim": 24})
        >>> run.recipe.loss.margin, run.dim
        (0.2, 24)
        >>> [epoch.epoch for epoch in run.history]
        [1]
    """
    with naming_extras():
        from seesay.training.train import train as train_recipe
    if isinstance(corpus, str | Path):
        corpus = read_corpus(corpus, phrases=learns_phrases(str(recipe)))
    resolved = load_recipe(str(recipe), corpus.name, changes)
    if isinstance(start_from, str | Path):
        start_from = load_run(str(start_from))
    before = chosen_device()
    try:
        choose_device(checked_device(device) if device is not None else before)
        return train_recipe(resolved, corpus, home_expanded(out), resume, callbacks, start_from)
    finally:
        choose_device(before)
