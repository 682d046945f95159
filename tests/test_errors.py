"""Errors that users see: the command that adds an extra is one that works where they stand."""

import importlib.metadata
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from seesay.errors import install_command


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'seesay[raw]'"),
        ({"dir_info": {"editable": True}}, "pip install -e '{place}[raw]'"),
        ({"dir_info": {}}, "pip install '{place}[raw]'"),
        ({"archive_info": {}}, "pip install '{place}[raw]'"),
        (
            {"archive_info": {}, "url": "https://example.org/seesay.whl"},
            "pip install 'seesay[raw] @ https://example.org/seesay.whl'",
        ),
        (
            {"vcs_info": {"vcs": "git", "commit_id": "f00d"}, "url": "https://example.org/seesay.git"},
            "pip install 'seesay[raw] @ git+https://example.org/seesay.git@f00d'",
        ),
    ],
)
def test_an_extra_is_added_to_the_seesay_that_runs(
    origin: dict[str, object] | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "my checkout"
    checkout.mkdir()
    text = json.dumps({"url": checkout.as_uri()} | origin) if origin else None
    monkeypatch.setattr(
        importlib.metadata, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text)
    )
    assert install_command("raw") == command.format(place=checkout)
    monkeypatch.chdir(checkout)
    assert install_command("raw") == command.format(place=".")
