import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi.testclient import TestClient
from PIL import Image

from seesay.search import Index
from seesay.web.app import create_app
from seesay.web.service import ServerOptions
from tests.search.colours import RGB, Colours, gallery, opened, picture

NAMES = ("red.png", "blue.png", "sub/green.png", "red-blue.png", "yellow-black.png")
SHAPES = ((300, 200), (200, 300), (500, 180), (240, 240))


TOKEN = "a-token-of-many-letters"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A file with a token."""
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return gallery(tmp_path / "photos", *NAMES)


def indexed(photos: Path) -> Path:
    """Make an index beside photos."""
    with Index.create(photos.parent / "index", Colours()) as index:
        index.update_images(photos)
        index.add_sentences([f"something {colour}" for colour in RGB])
    return photos.parent / "index"


@pytest.fixture
def index_path(photos: Path) -> Path:
    return indexed(photos)


def client_of(served: Path | Index | dict[str, Index], **options: Any) -> TestClient:
    """A client of a server of an index, or of several by their names."""
    indexes = opened(served) if isinstance(served, Path) else served
    return TestClient(create_app(indexes, ServerOptions(**options)), base_url="http://localhost")


def served(
    index: Path | dict[str, Path],
    ground_run: str = "none",
    matcher: Colours | None = None,
    **options: object,
) -> Iterator[str]:
    """A server of an index, or of several by their names, in a thread; yields its address."""
    several = index if isinstance(index, dict) else {"index": index}
    app = create_app(
        {name: opened(each, matcher) for name, each in several.items()},
        ServerOptions(ground_run=ground_run, **options),
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)  # which a failing test leaves behind
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def shared_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of an index that no test changes."""
    with client_of(indexed(gallery(tmp_path_factory.mktemp("shared") / "photos", *NAMES))) as client:
        yield client


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    """A client of `index_path` where a test names it or its photos and may change them, else a shared one."""
    if {"photos", "index_path"}.isdisjoint(request.fixturenames):
        yield request.getfixturevalue("shared_client")
        return
    with client_of(request.getfixturevalue("index_path")) as client:
        yield client


@pytest.fixture(scope="session")
def scene_index(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of ten scenes and three sentences, the photos beside it."""
    folder = tmp_path_factory.mktemp("scenes-indexed")
    (folder / "photos").mkdir()
    for path in sorted((scenes / "images").iterdir())[:10]:
        shutil.copy(path, folder / "photos")
    with Index.create(folder / "index", Colours()) as index:
        index.update_images(folder / "photos")
        index.add_sentences(["something red", "something blue", "a green triangle"])
    return folder / "index"


@pytest.fixture(scope="session")
def page_index(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the browser's tests search: coloured images of four shapes, and a scene, large and very wide."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "photos").mkdir()
    for i in range(16):
        colour = list(RGB)[i % 6]
        (folder / "photos" / f"{colour} {i}.png").write_bytes(picture(colour, size=SHAPES[i % 4]))
    with Image.open(min((scenes / "images").iterdir())) as scene:
        scene.resize((800, 640)).save(folder / "photos" / "large.png")
        scene.resize((1600, 200)).save(folder / "photos" / "wide.png")
    with Index.create(folder / "index", Colours()) as index:
        index.update_images(folder / "photos")
        index.add_sentences([f"something {colour}" for colour in RGB])
    return folder / "index"


@pytest.fixture(scope="session")
def address(page_index: Path, grounding_run: Path) -> Iterator[str]:
    """A server that grounds."""
    yield from served(page_index, str(grounding_run))


@pytest.fixture(scope="session")
def plain_address(page_index: Path) -> Iterator[str]:
    """A server of the same index that does not ground."""
    yield from served(page_index)


@pytest.fixture
def watched(browser, address: str) -> Iterator:
    from tests.web.browser import Watched

    made = Watched(browser, address)
    yield made
    made.context.close()
    assert made.foreign == []


@pytest.fixture
def page(watched) -> Iterator:
    yield watched.page
    assert watched.errors == []
