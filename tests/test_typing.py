"""The types of the public names, as mypy checks them in a file of somebody who uses seesay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import seesay

RIGHT = """
import seesay
from seesay.metrics import RetrievalMetrics

run = seesay.train("irmatch-s", "flickr8k", "run", epochs=3, margin=0.2, matcher={"dim": 24}, widths=[1024])
result = seesay.evaluate(run, "flickr8k")
recall: float = result.monitor
best = result.metrics["S R@1"]
batches = RetrievalMetrics(k=(1, 10))
"""
WRONG = """
import seesay

run = seesay.train("irmatch-s", "flickr8k", "run", resume="yes")
seesay.evaluate(run, "flickr8k").monito
"""


@pytest.mark.slow
def test_mypy_accepts_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    source = Path(seesay.__file__).parents[1]
    assert (source / "seesay" / "py.typed").is_file()
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "right.py", "wrong.py"]
    environment = os.environ | {"MYPYPATH": str(source)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.partition(" error:")[0] for line in lines] == ["wrong.py:4:", "wrong.py:5:"]
    assert '"resume"' in lines[0]
    assert '"monitor"?' in lines[1]
