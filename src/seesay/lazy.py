"""Public names that are imported when they are first used, so that importing a package is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from seesay.errors import naming_extras


def lazy_names(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`, and set its `__all__` if it has none.

    `names` has, for each module, the names that are imported from it when they are first used; those under ""
    are modules.

    Raises:
        MissingExtraError: by the returned `__getattr__`, if a module needs a package that is not installed.
    """
    modules = {name: module for module, some in names.items() for name in some}
    vars(sys.modules[package]).setdefault("__all__", sorted(modules))

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        with naming_extras():
            if not modules[name]:
                return import_module(f"{package}.{name}")
            found = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    def listed() -> list[str]:
        return sorted({*modules, *sys.modules[package].__all__})

    return get, listed
