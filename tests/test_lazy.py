"""Names that are imported when they are first used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

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


def test_a_name_imports_the_module_that_has_it_and_no_other() -> None:
    code = (
        "import sys; from seesay.metrics import Ranks; from seesay import SeesayError; "
        "assert 'seesay.data.corpus' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_index_of_photos_is_imported_without_corpora() -> None:
    code = "import sys, seesay.search.index; assert 'seesay.data.corpus' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
