"""Measure the source of one or more checkouts, a column each: `python -m tools.house [CHECKOUT...]`.

Code is counted in lines with a token that is neither comment nor docstring, and in statements without
docstrings. A private function is "named once" if its own file refers to it exactly once. `--installed` adds
the megabytes of the packages that the core of seesay needs, as the running Python has them.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from tools.licences import closure

ROOT = Path(__file__).parents[1]
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
Functions = ast.FunctionDef | ast.AsyncFunctionDef
N = TypeVar("N", bound=ast.AST)


def main() -> None:
    """Print a line for each count, with a column for each checkout."""
    checkouts = [Path(name) for name in sys.argv[1:] if name != "--installed"] or [ROOT]
    columns = [house(checkout) for checkout in checkouts]
    names = dict.fromkeys(name for column in columns for name in column)
    width = max(map(len, names)) + 2
    for name in names:
        print(f"{name:<{width}}" + "".join(f"{column.get(name, 0):>10,}" for column in columns))
    if "--installed" in sys.argv:
        sizes = sorted(((megabytes, name) for name, megabytes in installed().items()), reverse=True)
        print(f"{'megabytes installed':<{width}}{sum(size for size, _ in sizes):>10,.0f}")
        print(", ".join(f"{name} {size:.0f}" for size, name in sizes if size >= 5))


def house(checkout: Path) -> dict[str, int]:
    """Return the counts of a checkout by name."""
    source = checkout / "src"
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    names = Counter(node.name for node in nodes(trees, ast.ClassDef))
    private, once = private_functions(trees)
    counts = {
        "lines of src": sum(map(lines_of, texts)),
        "code of src": sum(code_lines(text, trees[path]) for path, text in texts.items()),
        "statements of src": sum(not is_docstring(node) for node in nodes(trees, ast.stmt)),
        "files of src": len(texts),
        "classes": names.total(),
        "class names that stand twice": sum(count > 1 for count in names.values()),
        "functions": sum(1 for _ in nodes(trees, ast.FunctionDef)),
        "private functions": private,
        "private functions named once": once,
        "mentions of Any": sum(node.id == "Any" for node in nodes(trees, ast.Name)),
        "files in circles of imports": in_circles(imports(source, trees)),
    }
    for room in sorted(path for path in (source / "seesay").iterdir() if any(path.rglob("*.py"))):
        counts[f"lines of {room.name}/"] = sum(map(lines_of, room.rglob("*.py")))
    counts["lines of the core"] = sum(map(lines_of, (source / "seesay").glob("*.py")))
    for folder in ("tests", "tools", "benchmarks"):
        counts[f"lines of {folder}"] = sum(map(lines_of, (checkout / folder).rglob("*.py")))
    counts["lines of docs"] = sum(map(lines_of, [*checkout.glob("*.md"), *(checkout / "docs").rglob("*.md")]))
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    counts["dependencies of the core"] = len(project["dependencies"])
    for extra, needed in project["optional-dependencies"].items():
        counts[f"dependencies of [{extra}]"] = len(needed)
    return counts


def lines_of(path: Path) -> int:
    """Return the number of a file's lines."""
    return len(path.read_text(encoding="utf-8").splitlines())


def nodes(trees: dict[Path, ast.Module], kind: type[N]) -> Iterator[N]:
    """Yield the nodes of a kind in all trees."""
    return (node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, kind))


def is_docstring(node: ast.AST) -> bool:
    """Return whether a node is a string that stands alone, as docstrings do."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def code_lines(text: str, tree: ast.Module) -> int:
    """Return the number of lines with a token that is neither comment nor docstring."""
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if is_docstring(node) and isinstance(node, ast.Expr):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def private_functions(trees: dict[Path, ast.Module]) -> tuple[int, int]:
    """Return the number of private functions, and of those that their own file names exactly once."""
    total = once = 0
    for tree in trees.values():
        walked = list(ast.walk(tree))
        named = Counter(node.id for node in walked if isinstance(node, ast.Name))
        named.update(node.attr for node in walked if isinstance(node, ast.Attribute))
        private = [
            node.name
            for node in walked
            if isinstance(node, Functions) and node.name.startswith("_") and not node.name.endswith("__")
        ]
        total += len(private)
        once += sum(named[name] == 1 for name in private)
    return total, once


def imports(source: Path, trees: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """Return, for each module, the modules of the same source that it imports anywhere, for types too."""
    modules = {".".join(path.relative_to(source).with_suffix("").parts): tree for path, tree in trees.items()}
    known = {name.removesuffix(".__init__"): name for name in modules}
    found = {name: set[str]() for name in modules}
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                inside = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted = [each if each in known else node.module for each in inside]
            else:
                continue
            found[name].update(known[each] for each in wanted if each in known)
    # A package that loads its public names lazily names them for type checkers only: no circle.
    return {name: targets for name, targets in found.items() if not name.endswith("__init__")}


def in_circles(graph: dict[str, set[str]]) -> int:
    """Return the number of modules that import themselves by way of others."""
    return sum(name in reachable(graph, name) for name in graph)


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return what can be reached from a module in one step or more."""
    seen, waiting = set[str](), [*graph[start]]
    while waiting:
        name = waiting.pop()
        if name not in seen and name in graph:
            seen.add(name)
            waiting.extend(graph[name])
    return seen


def installed() -> dict[str, float]:
    """Return the megabytes on disk of each package that the core of seesay needs."""
    packages = closure("seesay", set()).items()
    return {
        name: sum(
            path.stat().st_size
            for file in package.files or ()
            if (path := Path(str(package.locate_file(file)))).is_file()
        )
        / 1e6
        for name, package in packages
    }


if __name__ == "__main__":
    main()
