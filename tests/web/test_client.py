"""The Python client against a server, and against the OpenAPI schema."""

from __future__ import annotations

import inspect
import io
import zipfile
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from seesay.web.client import Client, ClientError
from tests.search.colours import picture
from tests.web.test_serve import serving


@pytest.fixture
def remote(index_path: Path):
    with serving(index_path) as port:
        yield Client(f"http://127.0.0.1:{port}")


def test_every_method_asks_its_operation(remote: Client, photos: Path) -> None:
    found = remote.search("something red", limit=2)
    first = found.results[0]
    assert (first.path, len(found.results)) == ("red.png", 2)
    assert remote.search("something red", limit=2, cursor=found.next).results[0].id not in {
        hit.id for hit in found.results
    }
    assert next(hit.path for hit in remote.search_all("red")) == "red.png"
    assert len(list(remote.search_all("red"))) == len(list(remote.newest_all())) == 5
    assert remote.search_with_images([picture("blue")], "- red", limit=1).results[0].path == "blue.png"
    assert remote.search_with_images([photos / "red.png"], limit=1).results[0].path == "red.png"
    assert len(remote.similar(first.id).results) == 4
    assert remote.sentences(picture("green"), limit=1).results[0].text == "something green"
    assert remote.newest(limit=1).next is not None
    assert sum(month.images for month in remote.months()) == 5
    assert [(each.folder, each.images) for each in remote.folders()] == [("sub", 1)]
    assert remote.facts(first.id).path == "red.png"
    assert remote.original(first.id) == (photos / "red.png").read_bytes()
    assert remote.thumbnail(first.id)[:2] == remote.jpeg(first.id)[:2] == b"\xff\xd8"
    assert remote.duplicates().groups == []
    with zipfile.ZipFile(io.BytesIO(remote.archive([first.id, 1]))) as archive:
        assert archive.testzip() is None
        assert archive.read("red.png") == remote.original(first.id)
    assert [each.name for each in remote.indexes()] == ["index"]
    assert remote.status().images == 5
    assert remote.faults() == []
    assert remote.update().running
    assert remote.update_state().error is None


def test_a_refusal_is_an_error_with_its_status(remote: Client) -> None:
    with pytest.raises(ClientError, match="only subtracts") as refused:
        remote.search("- red")
    assert refused.value.status == 422
    with pytest.raises(ClientError, match="cannot be reached"):
        Client("http://127.0.0.1:9").status()
    with pytest.raises(ClientError, match="not the address"):
        Client("127.0.0.1")


def test_the_client_knows_every_operation_and_parameter(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    operations = {}
    for path, methods in schema["paths"].items():
        if path.startswith("/api/v1/"):
            for operation in methods.values():
                name = operation["operationId"]
                parameters = {each["name"]: each for each in operation.get("parameters", [])}
                parameters.pop("index", None)  # is of the client
                parameters.pop("if-none-match", None)
                if "requestBody" in operation:
                    parameters["image"] = {"name": "image", "required": True, "schema": {}}
                operations[name] = parameters
    methods = dict(inspect.getmembers(Client, inspect.isfunction))
    ours = {name for name in methods if not name.startswith("_")} - {
        "search_all",
        "newest_all",
        "thumbnail_address",
    }
    assert ours == set(operations)
    for name, parameters in operations.items():
        signature = inspect.signature(methods[name]).parameters
        assert set(signature) - {"self"} == set(parameters), name
        for parameter in parameters.values():
            here = signature[parameter["name"]].default
            if parameter.get("required"):
                assert here is inspect.Parameter.empty, (name, parameter["name"])
            else:
                assert here == parameter["schema"].get("default"), (name, parameter["name"])
