"""Damaged indexes, runs, recipes and corpora on the command line: exit 2 and one line, never a traceback."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random

from seesay.cli import main
from seesay.runs.folder import run_folder
from seesay.search.index import Index
from tools.scenes import write_scenes
from tools.torture.base import Outcome, Stage, attack


def _run(*arguments: object) -> tuple[int | None, str]:
    """Exit code and standard error of a command; None with the exception that ended it otherwise."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main(list(map(str, arguments)))
    except SystemExit as end:
        return (end.code if isinstance(end.code, int) else 2), err.getvalue()
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    return 0, err.getvalue()


def _damage(draw: Random, file: Path) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(draw.randint(1, 5)):
        at = draw.randrange(len(data)) if data else 0
        size = draw.choice((1, 8, 200))
        data[at : at + size] = draw.choice((b"", draw.randbytes(size), b"[" * size, b"\0" * size))
    file.write_bytes(data)


@attack(
    "corrupt",
    "damaged indexes, runs, recipes and corpora on the command line: exit status 0 to 2, no traceback",
)
def corrupt(stage: Stage) -> Outcome:
    """Damage a copy of a sound one, then use it."""
    outcome, sound, copy = Outcome(), stage.folder / "sound", stage.folder / "copy"
    sound.mkdir()
    write_scenes(sound / "corpus", images=12, seed=0)
    (sound / "corpus" / "extra.csv").unlink(missing_ok=True)
    (sound / "recipe.yaml").write_text(
        "name: mine\nencoders: [efficientnet-lite0]\nmatcher: {kind: irmatch-s, dim: 8}\n"
    )
    with Index.create(sound / "index") as index:
        index.add_sentences(["a dog runs on the beach", "a red car", "two cats"])
        index.update_images(sound / "corpus" / "images")
    shutil.copytree(run_folder("seesay-small"), sound / "run")
    image = min((sound / "corpus" / "images").iterdir())
    (sound / "photos").mkdir()
    shutil.copy(image, sound / "photos")
    new = copy / "new"
    uses: list[tuple[str, tuple[object, ...]]] = [
        ("index/index.sqlite", ("sentences", copy / "index", image)),
        ("index/index.sqlite", ("search", copy / "index", "a red circle", "--json")),
        *(
            (f"run/{file.name}", ("index", copy / "photos", "--run", copy / "run", "--out", new))
            for file in sorted((sound / "run").iterdir())
            if file.name != "README.md"
        ),
        ("corpus/dataset_scenes.json", ("data", copy / "corpus")),
        ("corpus/phrases.tsv", ("data", copy / "corpus", "--phrases")),
        ("recipe.yaml", ("train", copy / "recipe.yaml", "--data", copy / "none")),
    ]
    while stage.goes_on:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(sound, copy)
        name, arguments = stage.draw.choice(uses)
        _damage(stage.draw, copy / name)
        code, said = _run(*arguments)
        told = [line for line in said.splitlines() if not line.startswith("Indexing: ")]  # how far it was
        one_line = code != 2 or len(told) == 1
        outcome.check(code in (0, 1, 2) and one_line, f"{json.dumps(name)}: {code}, {said[-200:]!r}")
    return outcome
