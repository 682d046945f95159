"""Public names that are imported when they are first used, so that importing a package is quick."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from seesay.errors import naming_extras


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`, and set its `__all__` if it has none.

    The names are those that its file imports for type checkers, under `if TYPE_CHECKING`. Each is imported
    when it is first used.

    Raises:
        MissingExtraError: by the returned `__getattr__`, if a module needs a package that is not installed.
    """
    module = sys.modules[package]
    modules = _names_for_type_checkers(Path(str(module.__file__)).read_text(encoding="utf-8"))
    vars(module).setdefault("__all__", sorted(modules))

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        with naming_extras():
            if modules[name] == package:
                return import_module(f"{package}.{name}")
            found = getattr(import_module(modules[name]), name)
        setattr(module, name, found)
        return found

    def listed() -> list[str]:
        return sorted({*modules, *module.__all__})

    return get, listed


def _names_for_type_checkers(source: str) -> dict[str, str]:
    r"""Return the names that a file imports under `if TYPE_CHECKING`, each with its module.

    >>> _names_for_type_checkers("if TYPE_CHECKING:\n    from seesay.losses.base import Batch as Batch")
    {'Batch': 'seesay.losses.base'}
    """
    blocks = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom))
    return {name.name: str(node.module) for node in imports for name in node.names}
