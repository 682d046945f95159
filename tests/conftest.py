"""What several tests share: the real corpus where it exists, and a small drawn one."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLICKR8K = ROOT.parent / "shared" / "flickr8k"


@pytest.fixture(scope="session")
def flickr8k() -> Path:
    if not (FLICKR8K / "images.tar").is_file():
        pytest.skip(f"real data: no Flickr8k at {FLICKR8K}")
    return FLICKR8K


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A captioned corpus of drawn scenes, 60 images."""
    from seesay.data.scenes import write_scenes

    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, images=60, seed=7)
    return folder
