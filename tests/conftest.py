"""What several tests share: the real corpus where it exists, a small drawn one, and runs trained on it."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import settings

# The same few examples on every run; `--hypothesis-profile=random` draws others, and more.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=30)
settings.register_profile("random", deadline=None)
settings.load_profile("fixed")

ROOT = Path(__file__).parents[1]
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
COMPILED = "SEESAY_TESTS_COMPILED"  # the file that the first worker makes when it has imported the tests
LARGE = max(2 << 30, MEMORY // 3 // WORKERS)  # bytes; a browser and what tests start need some too


def pytest_configure(config: pytest.Config) -> None:
    """Divide the cores among the workers of pytest-xdist, which inherit the environment of this process.

    It is too late for a worker to do so itself: some libraries read these variables when they are loaded, and
    plugins load them before this file.
    """
    if workers := getattr(config.option, "numprocesses", None):
        threads = str(max(1, (os.cpu_count() or 1) // workers))
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(variable, threads)
        compiled = (Path(__file__).parent / "web" / "__pycache__").glob("test_*-pytest-*.pyc")
        if not (sys.dont_write_bytecode or "PYTEST_XDIST_WORKER" in os.environ or any(compiled)):
            os.environ[COMPILED] = str(Path(tempfile.gettempdir()) / f"seesay-tests-compiled-{os.getpid()}")


def pytest_unconfigure() -> None:
    """Remove the file that the first worker has made."""
    if COMPILED in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        Path(os.environ[COMPILED]).unlink(missing_ok=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores, because many tests wait for a process, a server or a clock."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while modules are imported, which takes a quarter of the time and finds little.

    In a fresh checkout the first worker goes ahead: three at once would each compile every module.
    """
    gc.disable()
    worker, compiled = os.environ.get("PYTEST_XDIST_WORKER"), Path(os.environ.get(COMPILED, os.devnull))
    until = time.monotonic() + 120
    while worker not in (None, "gw0") and not compiled.exists() and time.monotonic() < until:
        time.sleep(0.1)
    found = yield
    if worker == "gw0" and COMPILED in os.environ:
        compiled.touch()
    return found


def pytest_collection_finish() -> None:
    """Leave what was imported out of all later searches for garbage."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: "torture" not in item.path.parts)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """A function that returns a folder of a name, which the first worker to ask for it has filled."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # of all workers

    def folder_of(name: str, fill: Callable[[Path], object]) -> Path:
        folder, whole = base / name, base / f"{name} is whole"
        with FileLock(base / f"{name}.lock"):
            if not whole.exists():
                fill(folder)
                whole.touch()
        return folder

    return folder_of


@pytest.fixture(scope="session")
def open_clip() -> Any:
    """The library, which imports torchvision."""
    from tests.fit_torchvision import fit_torchvision  # which imports PyTorch

    fit_torchvision()
    return pytest.importorskip("open_clip", reason="open_clip is not installed")


@pytest.fixture(scope="session")
def clip(open_clip: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small CLIP model."""
    from tests.small_towers import save_clip

    return save_clip(open_clip, tmp_path_factory.mktemp("models") / "clip")


@pytest.fixture(scope="session")
def siglip(open_clip: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small SigLIP model, which has a bias."""
    from tests.small_towers import save_siglip

    return save_siglip(open_clip, tmp_path_factory.mktemp("models") / "siglip")


@pytest.fixture(scope="module", autouse=True)
def _networks_are_let_go() -> Iterator[None]:
    """Drop what loaders of networks keep, between two files and only when a worker has grown large."""
    yield
    grown = Path("/proc/self/statm")
    if not grown.exists() or int(grown.read_text().split()[1]) * resource.getpagesize() < LARGE:
        return
    for name, module in list(sys.modules.items()):
        if name.startswith(("seesay.encoders.", "seesay.onnx")):
            for cached in vars(module).values():
                if hasattr(cached, "cache_clear"):
                    cached.cache_clear()
    gc.collect()


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache that no other module of tests has written to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEESAY_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


FLICKR8K = ROOT.parent / "shared" / "flickr8k"


@pytest.fixture(scope="session")
def flickr8k(made_once: Callable[..., Path]) -> Path:
    """The real corpus, unpacked."""
    if not (FLICKR8K / "images.tar").is_file():
        pytest.skip(f"real data: no Flickr8k at {FLICKR8K}")

    def unpack(folder: Path) -> None:
        with tarfile.open(FLICKR8K / "images.tar") as tar:
            tar.extractall(folder, filter="data")
        shutil.copy(FLICKR8K / "dataset_flickr8k.json", folder)

    return made_once("flickr8k", unpack)


@pytest.fixture(scope="session")
def scenes(made_once: Callable[..., Path]) -> Path:
    """A captioned corpus of drawn scenes, 60 images."""
    from tools.scenes import write_scenes

    return made_once("scenes", lambda folder: write_scenes(folder, images=60, seed=7))


@pytest.fixture(scope="session")
def grounding_run(scenes: Path, made_once: Callable[..., Path]) -> Path:
    """A run that grounds phrases in drawn scenes, small enough to be trained in seconds."""
    from seesay.data.readers import read_corpus
    from seesay.recipes.load import load_recipe
    from seesay.training.train import train

    changes = [
        "sentence_encoder=mean",
        "matcher.dim=64",
        "matcher.image_hidden=128",
        "matcher.sentence_hidden=128",
        "schedule.epochs=12",
        "schedule.patience=null",
        "batch_size=30",
        "regions.proposals=60",
    ]
    recipe = load_recipe("ground-single", changes=changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seesay.training.summarize.LEAST_IMAGES", 1)
        return made_once(
            "grounding-run", lambda folder: train(recipe, read_corpus(scenes, phrases=True), folder)
        )


@pytest.fixture(scope="session")
def pair_run(scenes: Path, made_once: Callable[..., Path]) -> Path:
    """A run of a pair matcher, small enough to be trained on drawn scenes in seconds."""
    from seesay.data.readers import read_corpus
    from seesay.recipes.load import load_recipe
    from seesay.training.train import train

    changes = [
        "encoders=[efficientnet-lite0]",
        "matcher.maps=[32, 48, 48]",
        "matcher.image=32",
        "matcher.hidden=64",
        "schedule.epochs=4",
        "schedule.patience=null",
        "batch_size=20",
    ]
    recipe = load_recipe("mcnn-wd", changes=changes)
    return made_once("pair-run", lambda folder: train(recipe, read_corpus(scenes), folder))


@pytest.fixture(scope="session")
def browser() -> Iterator:
    """One headless Chromium a worker: a process runs a single Playwright at a time."""
    from tests.web.browser import chromium  # skips if there is none

    yield from chromium()
