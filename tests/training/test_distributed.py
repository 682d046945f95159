"""Training by two processes: what they learn is what one learns, and what they cannot share is refused."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from seesay.cli import main
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.training.distributed import check_shareable, joined, shared
from seesay.training.epochs import read_history
from seesay.training.launch import launch
from tests.other_python import start_instead
from tests.training.one_of_several import RECIPES, train_all

ROOT = Path(__file__).parents[2]
RESUMED = "encoded"


@pytest.fixture(scope="module")
def runs(scenes: Path, one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The runs of one process, and those of two, of which one was stopped in its second epoch and resumed."""
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.training.one_of_several", str(scenes), str(two), RESUMED]
    train_all(scenes, one)  # first, so that features and fitted sentence encoders are in the cache
    started = [
        subprocess.Popen(
            command, cwd=ROOT, env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(2)
    ]
    assert [process.wait(300) for process in started] == [0, 0]
    return one, two


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_two_processes_learn_what_one_learns(name: str, runs: tuple[Path, Path]) -> None:
    one, two = (load_file(folder / name / "checkpoint.safetensors") for folder in runs)
    assert one.keys() == two.keys()
    for key in one:
        if key.startswith(("matcher.", "optimizer.")):  # which epoch is best may depend on the last bit
            assert torch.allclose(one[key], two[key], rtol=1e-3, atol=1e-4), key
    first, second = (read_history(folder / name) for folder in runs)
    assert [epoch.loss for epoch in first] == pytest.approx([epoch.loss for epoch in second], rel=1e-5)


@pytest.mark.slow
def test_a_command_starts_its_processes(
    scenes: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    changes = ["encoders=[efficientnet-lite0]", "matcher.dim=24", "matcher.word_dim=8", "schedule.epochs=1"]
    options = [part for change in changes for part in ("--set", change)]
    with pytest.raises(SystemExit) as exit_:
        main(
            ["train", "irmatch-s", "--data", str(scenes), "--out", str(tmp_path), "--devices", "2", *options]
        )
    assert exit_.value.code == 0
    assert capfd.readouterr().out.count("1 epoch") == 1  # one process speaks
    assert (tmp_path / "images.onnx").is_file()


def test_an_error_of_all_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    assert launch(["search", "no-such-index", "a dog"], 2) == 2
    assert capfd.readouterr().err.count("no-such-index") == 1


def test_a_process_that_fails_alone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_instead('[ "$RANK" = 0 ] && exec sleep 60\necho no GPU; exit 3', tmp_path, monkeypatch)
    with pytest.raises(SeesayError, match=r"Process 2 of 2 ended with code 3 .*process-2\.log") as failure:
        launch(["train"], 2, grace=0.2)
    log = Path(str(failure.value).partition("see ")[2].partition(",")[0])
    assert log.read_text() == "no GPU\n"


def test_a_first_process_that_is_killed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_instead('[ "$RANK" = 0 ] && kill -9 $$\necho step 7; exec sleep 60', tmp_path, monkeypatch)
    with pytest.raises(SeesayError, match=r"The first of 2 processes was ended by SIGKILL") as failure:
        launch(["train"], 2)
    logs = Path(str(failure.value).partition("said is in ")[2].partition(". ")[0])
    assert (logs / "process-2.log").exists()


def test_processes_end_with_the_command_that_started_them(tmp_path: Path) -> None:
    (tmp_path / "python").write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/ids\nexec sleep 60\n")
    (tmp_path / "python").chmod(0o700)
    program = (
        f"import sys; sys.executable = {str(tmp_path / 'python')!r}\n"
        "from seesay.training.launch import launch; sys.exit(launch(['train'], 2))"
    )
    command = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    ids: list[int] = []
    while len(ids) < 2 and command.poll() is None:
        time.sleep(0.05)
        ids = (
            [int(id_) for id_ in (tmp_path / "ids").read_text().split()]
            if (tmp_path / "ids").exists()
            else []
        )
    command.terminate()
    assert command.wait(20) == 128 + signal.SIGTERM
    for id_ in ids:
        with pytest.raises(ProcessLookupError):
            os.kill(id_, 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cca-mean", "the loss correlation is not one of scores or embeddings"),
        ("concepts", "the loss multi-label is not one of scores"),
        ("dcca", "train without --devices"),
        ("mcnn-ens", "combines runs or fine-tunes one; train its members by several processes"),
    ],
)
def test_what_cannot_be_shared_is_refused(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SeesayError, match=message), joined(load_recipe(name)):
        pass


@pytest.mark.parametrize("name", ["two-branch", "mcnn-wd", "dvsa", "sco-ctx", "projection", "ground-one"])
def test_what_scores_or_embeds_can_be_shared(name: str) -> None:
    check_shareable(load_recipe(name))


def test_one_process_pays_nothing() -> None:
    matcher = torch.nn.Linear(2, 2)
    with shared(matcher, lambda whole, batch: [whole, batch]) as losses_of:  # type: ignore[list-item]
        assert losses_of(1) == [matcher, 1]
