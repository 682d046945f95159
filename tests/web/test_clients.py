"""Clients that common generators make of the OpenAPI schema upload images, and download images and zips.

The generators, and what their clients need, are installed in an environment of their own.
"""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.search.colours import picture
from tests.web.conftest import TOKEN, indexed, served

pytestmark = pytest.mark.slow

OPENAPI_PYTHON_CLIENT = """
import sys
from io import BytesIO
from pathlib import Path

from seesay_client import AuthenticatedClient
from seesay_client.api.images import archive, jpeg_of_upload, newest, original, thumbnail, view
from seesay_client.api.queries import search, search_with_image
from seesay_client.models import BodyJpegOfUpload, BodySearchWithImage
from seesay_client.types import File

address, token, red, out = sys.argv[1:]
client, out = AuthenticatedClient(base_url=address, token=token, raise_on_unexpected_status=True), Path(out)


def chosen():
    return File(payload=BytesIO(Path(red).read_bytes()), file_name="red.png", mime_type="image/png")


assert search.sync(client=client, q="something blue").results[0].path == "blue.png"
best = search_with_image.sync(client=client, body=BodySearchWithImage(image=chosen())).results[0]
assert best.path == "red.png", best
made = jpeg_of_upload.sync(client=client, body=BodyJpegOfUpload(image=chosen()))
ids = [each.id for each in newest.sync(client=client).results]
for name, data in {
    "original.png": original.sync(best.id, client=client),
    "view.png": view.sync(best.id, client=client),
    "thumbnail.jpg": thumbnail.sync(best.id, client=client),
    "upload.jpg": made,
    "images.zip": archive.sync(client=client, id=ids),
}.items():
    (out / name).write_bytes(data.payload.read())
"""

OPENAPI_GENERATOR = """
import sys
from pathlib import Path

import seesay_client

address, token, red, out = sys.argv[1:]
client = seesay_client.ApiClient(seesay_client.Configuration(host=address, access_token=token))
images, queries, out = seesay_client.ImagesApi(client), seesay_client.QueriesApi(client), Path(out)
chosen = ("red.png", Path(red).read_bytes())
assert queries.search("something blue").results[0].path == "blue.png"
best = queries.search_with_image(chosen).results[0]
assert best.path == "red.png", best
for name, data in {
    "original.png": images.original(best.id),
    "view.png": images.view(best.id),
    "thumbnail.jpg": images.thumbnail(best.id),
    "upload.jpg": images.jpeg_of_upload(chosen),
    "images.zip": images.archive([each.id for each in images.newest().results]),
}.items():
    (out / name).write_bytes(data)
"""


@pytest.fixture(scope="module")
def bin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of an environment with both generators."""
    place = tmp_path_factory.mktemp("generators")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    needed = ["openapi-python-client", "openapi-generator-cli", "python-dateutil", "pydantic", "urllib3"]
    command = [place / "bin/pip", "install", "-q", *needed]
    installed = subprocess.run(command, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"the generators cannot be installed: {installed.stderr.strip()[-200:]}")
    return place / "bin"


@pytest.fixture
def locked(photos: Path, tokens: Path) -> Iterator[str]:
    """A server that asks for a token."""
    yield from served(indexed(photos), token_file=tokens)


def run(*command: object, folder: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def check(client: str, bin: Path, locked: str, photos: Path, folder: Path) -> None:
    """Run a client's script, and check what it downloaded."""
    (folder / "client.py").write_text(client)
    (folder / "out").mkdir()
    run(bin / "python", "client.py", locked, TOKEN, photos / "red.png", folder / "out", folder=folder)
    found = {file.name: file.read_bytes() for file in (folder / "out").iterdir()}
    assert found["original.png"] == found["view.png"] == (photos / "red.png").read_bytes() == picture("red")
    assert found["thumbnail.jpg"][:2] == found["upload.jpg"][:2] == b"\xff\xd8"
    with zipfile.ZipFile(folder / "out/images.zip") as archive:
        assert archive.testzip() is None
        assert archive.read("sub/green.png") == (photos / "sub/green.png").read_bytes()
        assert len(archive.namelist()) == 5


@pytest.fixture
def schema(locked: str, tmp_path: Path) -> Path:
    answer = httpx.get(f"{locked}/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"})
    (tmp_path / "openapi.json").write_text(json.dumps(answer.json()))
    return tmp_path / "openapi.json"


def test_a_client_of_openapi_python_client(bin, locked, schema, photos, tmp_path) -> None:
    (tmp_path / "made.yaml").write_text("post_hooks: []\npackage_name_override: seesay_client\n")
    options = ["--path", schema, "--meta", "none", "--output-path", tmp_path / "seesay_client"]
    program = bin / "openapi-python-client"
    said = run(program, "generate", *options, "--config", tmp_path / "made.yaml", folder=tmp_path)
    assert "WARNING" not in said
    check(OPENAPI_PYTHON_CLIENT, bin, locked, photos, tmp_path)


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_a_client_of_openapi_generator(bin, locked, schema, photos, tmp_path) -> None:
    options = ["-i", schema, "-g", "python", "-o", tmp_path, "--package-name", "seesay_client"]
    run(bin / "openapi-generator-cli", "generate", *options, folder=tmp_path)
    check(OPENAPI_GENERATOR, bin, locked, photos, tmp_path)
