"""Runs commands in forks of one process, whose system calls fail as it is told; see `disk`.

It reads a line of JSON for each command from standard input and answers with one on standard output. The
library that lets calls fail is preloaded into it. Indexes are of `Colours`, which need no network, and images
are decoded here: what decodes them elsewhere is given their bytes, and calls nothing on files.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fastapi.testclient import TestClient

from seesay.cli import main as run_command
from seesay.cli import with_all_commands
from seesay.data.decoders import Decoders
from seesay.data.images import MAX_PIXELS, DecodedImage, EncodedImage
from seesay.errors import SeesayError
from seesay.progress import visible
from seesay.recipes.files import included_recipes
from seesay.search import index, reader
from seesay.search.index import Index
from seesay.text.concepts import nouns
from seesay.web.app import create_app
from tests.search.colours import Colours, picture

_SECONDS = 300  # of a command, which takes a few on a machine without other work


def ask_server(folder: str) -> None:
    """Serve an index, and ask for a search, a picture, an upload and an update; exit 3 on a status of 500."""
    statuses: list[int] = []
    with Index.open(folder, Colours()) as opened, TestClient(create_app(opened)) as client:
        client.base_url = client.base_url.copy_with(host="localhost")
        for address in ("search?q=red", "images", "images/1/thumbnail", "images/1/original", "status"):
            statuses.append(client.get(f"/api/v1/{address}").status_code)
        upload = {"image": ("a.png", picture("red"))}
        statuses.append(client.post("/api/v1/search", files=upload).status_code)
        statuses.append(client.post("/api/v1/update").status_code)
        app: Any = client.app
        for served in app.state.service.served.values():
            served.updates.join(_SECONDS)
        statuses.append(client.get("/readyz").status_code)
    if 500 in statuses:
        sys.exit(f"Traceback: statuses {statuses}")


def go_on(whole: str, *train: str) -> None:
    """Train again, from where a training had come to; exit 3 on other weights than those of a whole one."""
    out = Path(train[-1])
    run_command([*train, *(["--resume"] if (out / "run.json").is_file() else [])])
    for file in ("weights.safetensors", "images.onnx", "sentences.onnx"):
        if (out / file).read_bytes() != (Path(whole) / file).read_bytes():
            sys.exit(f"Traceback: another {file}")


def decode_here(
    self: Decoders,  # noqa: ARG001
    data: bytes,
    name: str,
    min_side: int | None = None,
    max_pixels: int = MAX_PIXELS,
    key: str | None = None,
) -> DecodedImage:
    """Stand for `Decoders.decode`, which starts a process for each fork."""
    image = EncodedImage(data, name, max_pixels)
    pixels = image.pixels(min_side)
    return DecodedImage(name, key or image.key, pixels, image.size, image.taken)


COMMANDS: dict[str, Callable[..., None]] = {"serve": ask_server, "go on": go_on}


def run(arguments: Sequence[str]) -> None:
    """Run a command of seesay, or what stands for it."""
    if arguments[0] not in COMMANDS:
        run_command(arguments)
        return
    try:
        COMMANDS[arguments[0]](*arguments[1:])
    except SeesayError as error:  # as the command line says it
        print(f"seesay: {visible(str(error))}", file=sys.stderr)
        sys.exit(2)


def attempt(job: dict[str, Any], failing: Any) -> dict[str, Any]:
    """Fork, run a job there, and return how it ended, what it said, and which calls it made.

    `logged` has the number, the name and the path of each call if none was to fail.
    """
    first, last, number = job["failing"]
    with (
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as counted,
        tempfile.TemporaryFile() as logged,
    ):
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            signal.alarm(_SECONDS)
            code: object = 0
            failing.log_calls(logged.fileno() if last < first else -1)
            failing.arm(first, last, number)
            try:
                run(job["arguments"])
            except SystemExit as end:
                code = end.code
            except BaseException:
                sys.excepthook(*sys.exc_info())
                code = 70
            calls = failing.counted()
            failing.arm(0, 0, 0)
            if isinstance(code, str):
                os.write(2, f"{code}\n".encode())
                code = 1
            os.write(counted.fileno(), json.dumps([code or 0, calls]).encode())
            sys.stderr.flush()
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        said.seek(0), counted.seek(0), logged.seek(0)
        text, ended = said.read().decode(errors="replace"), counted.read()
        calls_made = logged.read().decode(errors="replace").splitlines()
    code, calls = json.loads(ended) if ended else (None, 0)
    killed = os.WTERMSIG(status) if code is None else 0
    return {"code": code, "calls": calls, "said": text, "signal": killed, "logged": calls_made}


def _load_once() -> None:
    """Load what takes commands seconds to load, before they are forked."""
    for name in ("matplotlib.backends.backend_agg", "onnxruntime", "seesay.training.train", "torch.onnx"):
        import_module(name)
    for name in ("cli.learn", "report.write", "runs.bundle", "runs.export", "training.summarize"):
        import_module(f"seesay.{name}")
    included_recipes()
    nouns("a dog runs on the beach")


def main() -> None:
    """Answer until there are no more jobs."""
    failing: Any = SimpleNamespace(arm=lambda *_: None, counted=lambda: 0, log_calls=lambda _: None)
    if "LD_PRELOAD" in os.environ:
        failing = ctypes.CDLL(os.environ["LD_PRELOAD"])
        failing.arm.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_int]
        failing.counted.restype = ctypes.c_long
    with_all_commands()
    if "networks" in sys.argv:
        _load_once()
    for module in (reader, index):
        module.load_embedder = lambda *_: Colours()  # type: ignore[attr-defined]
    Decoders.decode = decode_here  # type: ignore[method-assign]
    Path(os.environ["SEESAY_CACHE"]).mkdir(parents=True, exist_ok=True)
    for line in sys.stdin:
        print(json.dumps(attempt(json.loads(line), failing)), flush=True)


if __name__ == "__main__":
    main()
