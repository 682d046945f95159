"""Readers of an index beside its writer, one without the right to write: answers of one moment each."""

from __future__ import annotations

import os
import subprocess
import sys

from seesay.search.index import Index
from tests.search.colours import Colours
from tests.search.unprivileged import DROP
from tools.torture.base import ROOT, Outcome, Stage, attack
from tools.torture.kills import picture

# Photos come and go in pairs, so that an answer of two moments at once would hold one of a pair.
READ = """
import sys, time
from seesay.search.index import Index
from tests.search.colours import Colours
tried, until = 0, time.monotonic() + float(sys.argv[2])
with Index.open(sys.argv[1], Colours()) as index:
    while time.monotonic() < until:
        hits = index.search("red", 10_000)
        paths = [hit.path for hit in hits]
        pairs = {path.partition(" ")[0] for path in paths}
        assert len(set(paths)) == len(paths) == 2 * len(pairs), sorted(paths)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        order = [(image.time, image.id) for image in index.store.newest(10_000)]
        assert order == sorted(set(order), reverse=True), order
        tried += 1
print(tried)
"""


@attack(
    "readers",
    "readers beside a writer, one without write permission: each answer shows a single state",
)
def readers(stage: Stage) -> Outcome:
    """Add and delete photos in pairs, while other processes search and count."""
    outcome, folder, photos = Outcome(), stage.folder / "index", stage.folder / "photos"
    photos.mkdir()
    numbers = iter(range(10**9))

    def add_pair() -> None:
        number = next(numbers)
        for side in ("left", "right"):
            picture(stage, photos / f"{number} {side}.png")

    add_pair()
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    with Index.create(folder, Colours()) as index:
        index.update_images(photos)
        scripts = [READ, READ]
        if os.getuid() == 0:  # as root one may write what nobody is permitted to write
            folder.chmod(0o555)
            scripts.append(DROP + READ)
        reading = [
            subprocess.Popen(
                [sys.executable, "-c", script, str(folder), str(stage.seconds)],
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for script in scripts
        ]
        updates = 0
        while any(process.poll() is None for process in reading):
            pairs = sorted({file.name.partition(" ")[0] for file in photos.iterdir()})
            for pair in stage.draw.sample(pairs, min(len(pairs) - 1, stage.draw.randint(0, 3))):
                for file in photos.glob(f"{pair} *"):
                    file.unlink()
            for _ in range(stage.draw.randint(1, 4)):
                add_pair()
            index.update_images(photos)
            updates += 1
        folder.chmod(0o755)
    for process in reading:
        out, error = process.communicate()
        outcome.tried += int(out or 0)
        outcome.check(process.returncode == 0, error[-300:])
    outcome.measured = f"{len(reading)} readers, {updates} updates"
    return outcome
