"""Header readers under coverage-guided fuzzing, where atheris installs."""

from __future__ import annotations

import importlib.util
import re
import sys

from tools.torture.base import Outcome, Stage, attack, command

FUZZ = """
import io, sys, tempfile
from pathlib import Path
import atheris
with atheris.instrument_imports(include=["PIL", "seesay.data"]):
    import numpy as np
    from PIL import Image
    from seesay.data import decoders, images
    from seesay.errors import ImageError
    from seesay.paths import open_file
import warnings
warnings.filterwarnings("ignore")
corpus = Path(sys.argv[-1])
pixels = Image.fromarray(np.zeros((5, 7, 3), np.uint8))
info = Image.Exif()
info[0x0110] = "a camera"
info.get_ifd(0x8769).update({0x9003: "2019:06:30 12:00:00", 0x829A: 0.004, 0x8827: 400})
for format in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "JPEG2000"):
    out = io.BytesIO()
    pixels.save(out, format, **({"exif": info} if format in ("JPEG", "PNG", "WEBP", "TIFF") else {}))
    (corpus / format).write_bytes(out.getvalue())
file = corpus.parent / "file"
def one(data):
    for fact in ("format", "size", "facts", "taken"):
        try:
            getattr(images.EncodedImage(data, "image"), fact)
        except ImageError:
            pass
    file.write_bytes(data)
    with open_file(file) as opened:
        images.file_format(opened)
    try:
        decoders.PHOTOS.facts(data, "image")
    except ImageError:
        pass
atheris.Setup(sys.argv, one)
atheris.Fuzz()
"""


# A process counts the memory of the one that starts it, such as that of many tests: so a small one does.
LAUNCHER = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"


@attack("headers", "readers of headers and EXIF under coverage-guided fuzzing: a value or an ImageError")
def headers(stage: Stage) -> Outcome:
    """Run atheris for the time; what it finds ends it."""
    outcome = Outcome()
    if importlib.util.find_spec("atheris") is None:
        outcome.measured = "not tried: no atheris here"
        return outcome
    corpus = stage.folder / "corpus"
    corpus.mkdir()
    seed, seconds = stage.draw.randrange(1, 2**31), max(5, int(stage.seconds) - 3)
    limits = (f"-max_total_time={seconds}", "-timeout=5", "-rss_limit_mb=3000", "-max_len=20000")
    kept = ("-print_final_stats=1", f"-artifact_prefix={stage.folder}/", corpus)
    fuzzing = (sys.executable, "-c", FUZZ, f"-seed={seed}", *limits, *kept)
    done = command("-c", LAUNCHER, *fuzzing, seconds=seconds + 120)
    executed = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    outcome.check(done.returncode == 0, f"seed {seed}: exit {done.returncode}: {done.stderr[-600:]}")
    outcome.tried = int(executed[1]) if executed else 1
    features = re.findall(r"ft: (\d+)", done.stderr)
    outcome.measured = f"{features[-1]} features of coverage" if features else ""
    return outcome
