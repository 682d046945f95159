"""Names that are imported when they are first used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from PIL import Image

from seesay.search import Index

PACKAGES = ("seesay", *(f"seesay.{name}" for name in ("encoders", "losses", "matchers", "metrics", "search")))


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_listed_and_there(name: str) -> None:
    package = import_module(name)
    assert set(package.__all__) <= set(dir(package))
    for each in package.__all__:
        assert getattr(package, each) is not None
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nonsense'"):
        package.nonsense  # noqa: B018


def test_listing_names_imports_nothing() -> None:
    code = (
        "import sys, seesay.losses, seesay.matchers; "
        "assert 'TripletLoss' in dir(seesay.losses) and 'SCO' in dir(seesay.matchers); "
        "assert {'Index', 'losses'} <= set(dir(seesay)); "
        "assert not {'torch', 'seesay.search.index'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_search_imports_only_what_half_a_second_allows(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (64, 48), "red").save(tmp_path / "photos" / "red.png")
    index = Index.create(tmp_path / "index")
    index.update_images(tmp_path / "photos")
    index.close()
    code = (
        "import sys; from seesay.search import Index; "
        f"print(*Index.open({str(tmp_path / 'index')!r}).search('something red')); "
        "sys.exit(str({'faiss', 'fastapi', 'pydantic', 'torch', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "red.png" in done.stdout
    assert done.stderr == "set()\n"


def test_a_process_that_decodes_photos_starts_without_what_only_settings_need() -> None:
    code = (
        "import sys, seesay.data.decoders; "
        "sys.exit(str({'onnxruntime', 'pydantic', 'torch', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "set()\n"


def test_a_name_imports_the_module_that_has_it_and_no_other() -> None:
    code = (
        "import sys; from seesay.metrics import Ranks; from seesay import SeesayError; "
        "assert 'seesay.data.corpus' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_index_of_photos_is_imported_without_corpora() -> None:
    code = "import sys, seesay.search.index; assert 'seesay.data.corpus' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
