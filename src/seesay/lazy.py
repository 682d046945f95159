"""Public names that are imported when they are first used, so that importing a package is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from seesay.errors import naming_extras


def lazy_names(package: str, modules: Sequence[str] = ()) -> Callable[[str], Any]:
    """Return a package's `__getattr__`, which looks for the names of its `__all__` in its modules.

    Args:
        package: its `__name__`.
        modules: which of its modules have the names; by default any of them.

    Raises:
        MissingExtraError: a module needs a package that is not installed; by the returned function.
    """

    def get(name: str) -> Any:
        there = sys.modules[package]
        if name not in vars(there).get("__all__", ()):
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        with naming_extras():
            for module in modules or [each.name for each in iter_modules(there.__path__)]:
                found = vars(import_module(f"{package}.{module}"))
                if name in found:
                    return found[name]
        raise AttributeError(f"module '{package}' lists '{name}', and no module of it has that name")

    return get
