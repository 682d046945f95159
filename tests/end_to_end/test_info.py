"""What somebody who runs an index asks about it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from PIL import Image

from tests.end_to_end.command import seesay


def test_an_index_says_what_it_holds(tmp_path: Path) -> None:
    photos, index = tmp_path / "photos", tmp_path / "photos.seesay"
    photos.mkdir()
    Image.new("RGB", (32, 32), "red").save(photos / "red.png")
    (photos / "broken.jpg").write_bytes(b"no image")
    (photos / "film.mp4").write_bytes(b"")
    (photos / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    seesay("index", photos, "--out", index)
    info = json.loads(seesay("info", index, "--json").stdout)
    assert (info["images"], info["sentences"]) == (1, 0)
    assert info["folders"] == [{"name": "photos", "folder": str(photos), "available": True}]
    assert info["run"] == "seesay-small"
    assert info["not_read"] == {"video": 1}
    assert list(info["faults"]) == ["broken.jpg", "gone.jpg"]
    (photos / "red.png").unlink()
    (photos / "red.png").symlink_to(tmp_path / "nowhere.png")
    seesay("index", photos, "--out", index, code=1)
    assert list(json.loads(seesay("info", index, "--json").stdout)["faults"]) == [
        "broken.jpg",
        "gone.jpg",
        "red.png",
    ]
    (photos / "red.png").unlink()
    Image.new("RGB", (32, 32), "red").save(photos / "red.png")
    (photos / "gone.jpg").unlink()
    seesay("index", photos, "--out", index)
    assert list(json.loads(seesay("info", index, "--json").stdout)["faults"]) == ["broken.jpg"]
    shutil.rmtree(photos)
    shown = seesay("info", index).stdout.splitlines()
    assert shown[0] == f"index: {index}"
    assert f"  photos: {photos} (not available)" in shown
    assert "images: 1" in shown
    assert shown[-2] == "faults: 1"
    assert shown[-1].startswith("  broken.jpg: ")
    assert "no index" in seesay("info", tmp_path / "gone", code=2).stderr
