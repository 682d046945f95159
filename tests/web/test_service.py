"""What an operator needs of the server: who may ask, where it lies, what it did, and how it stops."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import FileIO
from itertools import product
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families

from seesay.cli import main
from seesay.errors import SeesayError
from seesay.search import Index
from seesay.web.app import create_app, serve
from seesay.web.security import Limits
from seesay.web.service import ServerOptions
from tests.search.colours import RGB, Colours, gallery, opened, picture
from tests.waiting import waited
from tests.web.conftest import client_of
from tests.web.test_serve import serving


def test_head_is_get_without_the_body(client: TestClient) -> None:
    for address in (
        "/",
        "/api/v1/search?q=red",
        "/api/v1/images/1/original",
        "/static/style.css",
        "/healthz",
    ):
        got, head = client.get(address), client.head(address)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == got.headers["content-length"]
        assert head.headers["content-type"] == got.headers["content-type"]
    assert client.head("/api/v1/images/999").status_code == 404


def test_head_of_an_archive_reads_no_file(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    monkeypatch.setattr(
        "seesay.web.routes.images.zipped", lambda files: (read.append(each) for each in files)
    )
    head = client.head("/api/v1/images/archive?id=1&id=2")
    assert (head.status_code, head.headers["content-type"]) == (200, "application/zip")
    assert read == []


@pytest.mark.parametrize(("address", "status"), [("images/1/original", 404), ("images/archive?id=1", 500)])
def test_an_error_of_the_system_is_a_missing_file_only_where_one_file_is_asked_for(
    index_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, status: int
) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("seesay.web.routes.images._opened_image", failing)
    monkeypatch.setattr("seesay.web.routes.images._archived", failing)
    with client_of(index_path) as client:
        answer = TestClient(client.app, "http://localhost", False).get(f"/api/v1/{address}")
    assert answer.status_code == status


def test_a_disk_that_fails_is_no_error_of_the_server(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), "/photos/red.png")

    monkeypatch.setattr(Index, "open_image", failing)
    failed = client.get("/api/v1/images/1/original")
    assert (failed.status_code, "/photos" in failed.text) == (503, False)
    assert "Input/output error: '/photos/red.png'" in capsys.readouterr().err


def test_nobody_learns_where_things_lie_on_the_server(index_path: Path, tmp_path: Path, capsys) -> None:
    class Elsewhere(Colours):
        name = f"{tmp_path}/runs/mine"

    with Index.create(tmp_path / "other", Elsewhere()) as other:
        other.update_images(gallery(tmp_path / "others", "white.png"))
    with client_of(Index.open(tmp_path / "other", Elsewhere()), ground_run="none") as client:
        assert client.get("/api/v1/status").json()["matcher"] == "mine"
        client.app.state.service.find(None).index.close()
        failed = client.get("/api/v1/search?q=red")
    assert (failed.status_code, str(tmp_path) in failed.text) == (503, False)
    assert str(tmp_path) in capsys.readouterr().err


def test_further_pages_go_on_though_a_sentence_is_embedded_with_another_last_bit(
    index_path: Path, photos: Path
) -> None:
    """Each sentence comes back a little different each time."""

    class Rounding(Colours):
        calls = 0

        def embed_sentences(self, sentences: Sequence[str], query: bool = False):
            Rounding.calls += 1
            return super().embed_sentences(sentences) * np.float32(1 + 1e-6 * Rounding.calls)

    for i in range(4):  # of equal scores
        (photos / f"red {i}.png").write_bytes(picture("red", size=(30 + i, 20)))
    with client_of(Index.open(index_path, Rounding())) as client:
        client.app.state.service.find(None).index.update_images(photos)
        answer, found = {"next": ""}, []
        while answer["next"] is not None:
            cursor = {"cursor": answer["next"]} if answer["next"] else {}
            answer = client.get("/api/v1/search", params={"q": "red", "limit": 2, **cursor}).json()
            found += [image["id"] for image in answer["results"]]
    assert len(found) == len(set(found)) == 9


def test_updates_of_several_indexes_end_together(
    index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def record(name: str, method: Callable[..., None], *given: float) -> None:
        calls.append(name)
        method(*given)

    indexes = {"one": opened(index_path), "two": Index.create(tmp_path / "two", Colours())}
    with client_of(indexes, ground_run="none") as client:
        for served in client.app.state.service.served.values():
            for name in ("end", "join"):
                method = getattr(served.updates, name)
                monkeypatch.setattr(served.updates, name, partial(record, name, method))
    assert calls == ["end", "end", "join", "join"]


def test_several_indexes(index_path: Path, tmp_path: Path) -> None:
    gallery(tmp_path / "others", "white.png")
    with Index.create(tmp_path / "other", Colours()) as other:
        other.update_images(tmp_path / "others")
    both = {"first": opened(index_path), "other": opened(tmp_path / "other")}
    with client_of(both) as client:
        assert [(each["index"], each["images"]) for each in client.get("/api/v1/indexes").json()] == [
            ("first", 5),
            ("other", 1),
        ]
        here = client.get("/api/v1/search", params={"q": "white"}).json()["results"]
        there = client.get("/api/v1/search", params={"q": "white", "index": "other"}).json()["results"]
        assert (len(here), [hit["path"] for hit in there]) == (5, ["white.png"])
        assert client.get("/api/v1/images/1/thumbnail?index=other").status_code == 200
        assert client.get("/api/v1/images/2?index=other").status_code == 404
        missing = client.get("/api/v1/status?index=third")
        assert (missing.status_code, "first, other" in missing.json()["detail"]) == (404, True)


def test_names_that_are_allowed(index_path: Path) -> None:
    with client_of(index_path, hosts=["photos.example.org"]) as client:
        assert client.get("/healthz", headers={"Host": "photos.example.org"}).status_code == 200
        refused = client.get("/healthz", headers={"Host": "other.example.org"})
        assert (refused.status_code, "--allow-host" in refused.json()["detail"]) == (400, True)


def test_everything_lies_under_a_prefix(index_path: Path) -> None:
    with client_of(index_path, prefix="/photos") as client:
        redirect = client.get("/photos", follow_redirects=False)
        assert (redirect.status_code, redirect.headers["location"]) == (308, "/photos/")
        page = client.get("/photos/").text
        addresses = re.findall(r'(?:href|src|action)="([^"]*)"', page)
        assert addresses
        assert not [each for each in addresses if each.startswith("/")]
        assert client.get("/photos/static/style.css").status_code == 200
        assert client.get("/photos/api/v1/search?q=red").status_code == 200
        assert client.get("/api/v1/search?q=red").status_code == 200  # as a proxy that strips it asks
        assert client.get("/photosx").status_code == 404
        assert client.get("/photos/openapi.json").json()["servers"] == [{"url": "/photos"}]


@pytest.mark.parametrize("prefix", ["photos/", "/a b", "/../x", "/ä?", '/"'])
def test_a_prefix_that_is_none(index_path: Path, prefix: str) -> None:
    with pytest.raises(SeesayError, match="not a path prefix"):
        client_of(index_path, prefix=prefix)


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_a_server_for_all_without_a_token_warns(
    index_path: Path, tokens: Path, capsys, host, warned, monkeypatch
) -> None:
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    for file in (None, tokens):
        index = opened(index_path)
        serve(index, host=host, port=0, options=ServerOptions(token_file=file), ready=lambda _: None)
        index.close()
        assert ("--token-file" in capsys.readouterr().err) is (warned and file is None)


def test_a_server_is_ready_when_it_has_warmed_up(index_path: Path) -> None:
    loading = threading.Event()

    class Slow(Colours):
        def embed_sentences(self, sentences: Sequence[str], query: bool = False):
            loading.wait(10)
            return super().embed_sentences(sentences)

    with client_of(Index.open(index_path, Slow()), warm_up=True, ground_run="none") as client:
        waiting = client.get("/readyz")
        assert (waiting.status_code, waiting.json()["status"]) == (503, 503)
        assert client.get("/healthz").text == "ok\n"
        loading.set()
        waited(lambda: client.get("/readyz").status_code == 200)


def test_a_server_does_not_wait_for_ever_for_its_warm_up(index_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("seesay.web.app._SHUTDOWN_SECONDS", 0.2)
    going, ended = threading.Event(), threading.Event()

    class Endless(Colours):
        def embed_sentences(self, sentences: Sequence[str], query: bool = False):
            going.set()
            ended.wait(60)
            return super().embed_sentences(sentences)

    with client_of(Index.open(index_path, Endless()), warm_up=True, ground_run="none"):
        assert going.wait(10)
    assert "seesay-warm-up" in [thread.name for thread in threading.enumerate()]
    ended.set()


def test_the_schema_is_printed_without_a_server(
    client: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["openapi"])
    assert json.loads(capsys.readouterr().out) == client.get("/openapi.json").json()


def test_answers_name_their_index(index_path: Path) -> None:
    served = {"one": opened(index_path), "two": opened(index_path)}
    with client_of(served) as client:
        for address in (
            "search?q=red",
            "images",
            "images/1",
            "images/duplicates",
            "images/months",
            "images/folders",
            "faults",
            "status",
            "update",
        ):
            for name in served:
                sign = "&" if "?" in address else "?"
                assert client.get(f"/api/v1/{address}{sign}index={name}").json()["index"] == name
        assert client.get("/api/v1/search?q=red").json()["index"] == "one"
        assert [each["index"] for each in client.get("/api/v1/indexes").json()] == ["one", "two"]
        file = {"image": ("red.png", picture("red"), "image/png")}
        assert client.post("/api/v1/sentences?index=two", files=file).json()["index"] == "two"


def test_metrics_tell_of_faults_and_of_updates_that_fail(client: TestClient, photos: Path) -> None:
    def measured() -> dict[str, float]:
        families = text_string_to_metric_families(client.get("/metrics").text)
        return {each.name: each.value for family in families for each in family.samples}

    updates = next(iter(client.app.state.service.served.values())).updates
    (photos / "text.png").write_text("no image")
    updates.run()
    assert (measured()["seesay_index_faults"], measured()["seesay_index_update_failed"]) == (1, 0)
    shutil.rmtree(photos)
    with pytest.raises(SeesayError):
        updates.run()
    assert measured()["seesay_index_update_failed"] == 1


@pytest.mark.parametrize("lose", [shutil.rmtree, lambda folder: os.truncate(folder / "index.sqlite", 0)])
def test_an_index_that_cannot_be_read_leaves_the_metrics_of_the_others(
    lose: Callable[[Path], None], index_path: Path, tmp_path: Path
) -> None:
    shutil.copytree(index_path, tmp_path / "lost")
    served = {"whole": opened(index_path), "lost": opened(tmp_path / "lost")}
    with client_of(served) as client:
        lose(tmp_path / "lost")
        families = text_string_to_metric_families(client.get("/metrics").text)
        values = {(e.name, e.labels.get("index")): e.value for family in families for e in family.samples}
    assert values["seesay_index_readable", "whole"] == 1
    assert values["seesay_index_readable", "lost"] == 0
    assert values["seesay_index_images", "whole"] == 5
    assert ("seesay_index_images", "lost") not in values


def test_an_index_that_cannot_be_read_leaves_the_list_of_the_others(
    index_path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(index_path, tmp_path / "lost")
    lost = opened(tmp_path / "lost")
    with client_of({"lost": lost, "whole": opened(index_path)}) as client:
        os.truncate(tmp_path / "lost" / "index.sqlite", 0)
        answer = client.get("/api/v1/indexes")
        assert [each["index"] for each in answer.json()] == ["whole"]
    assert lost.place in capfd.readouterr().err
    (alone := Index.create(tmp_path / "alone", Colours())).close()
    with client_of({"alone": opened(tmp_path / "alone")}) as client:
        os.truncate(Path(alone.place) / "index.sqlite", 0)
        assert client.get("/api/v1/indexes").status_code == 503


@pytest.mark.usefixtures("index_path")  # so that nobody else asks the same server
def test_metrics_count_requests_by_route(client: TestClient) -> None:
    for _ in range(3):
        client.get("/api/v1/search?q=red")
    client.get("/api/v1/images/7/original")
    client.get("/nothing/at/all")
    client.head("/healthz")
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }
    count = "seesay_request_seconds_count"
    assert values[count, "GET", "/api/v1/search", "200"] == 3
    assert values[count, "GET", "/api/v1/images/{id}/original", "404"] == 1
    assert values[count, "GET", "other", "404"] == 1
    assert values[count, "HEAD", "/healthz", "200"] == 1
    assert values["seesay_index_images", "index"] == 5
    assert values["process_resident_memory_bytes",] > 1e6


def test_the_access_log_is_json_without_queries(index_path: Path, capsys) -> None:
    with client_of(index_path, access_log=True) as client:
        client.get("/api/v1/search?q=red")
        client.get("/api/v1/images/999")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/api/v1/search", 200),
        ("GET", "/api/v1/images/999", 404),
    ]
    assert all(line["bytes"] > 0 and line["ms"] > 0 for line in lines)
    assert "red" not in json.dumps(lines)


def test_an_update_is_started_and_followed(client: TestClient, photos: Path) -> None:
    gallery(photos, "white.png")
    (photos / "broken.png").write_bytes(b"no image")
    assert client.get("/api/v1/update").json()["seconds"] is None
    started = client.post("/api/v1/update")
    assert started.status_code == 202
    waited(lambda: not client.get("/api/v1/update").json()["running"])
    state = client.get("/api/v1/update").json()
    assert (state["added"], state["error"]) == (1, None)
    assert client.get("/api/v1/search?q=white").json()["results"][0]["path"] == "white.png"
    ((path, reason),) = client.get("/api/v1/faults").json()["faults"].items()
    assert path == "broken.png"
    assert reason
    assert client.get("/api/v1/status").json()["faults"] == 1


def test_what_the_last_update_could_not_read_is_a_fault_too(client: TestClient, photos: Path) -> None:
    (photos / "gone.png").symlink_to("nowhere")
    assert client.post("/api/v1/update").status_code == 202
    client.app.state.service.find(None).updates.join(20)
    found = client.get("/api/v1/faults").json()
    assert found["faults"] == {"gone.png": "a link to nothing"}


def test_a_second_update_has_to_wait_and_the_log_says_why_one_failed(
    index_path: Path, photos: Path, capsys
) -> None:
    going = threading.Event()

    class Slow(Colours):
        def embed_photos(self, photos, query=False):
            going.wait(10)
            return super().embed_photos(photos, query)

    with client_of(Index.open(index_path, Slow()), ground_run="none") as client:
        gallery(photos, "white.png")
        assert client.post("/api/v1/update").status_code == 202
        assert client.post("/api/v1/update").status_code == 409
        going.set()
        client.app.state.service.find(None).updates.join(10)
        for file in photos.rglob("*.png"):
            file.unlink()
        assert client.post("/api/v1/update").status_code == 202
        client.app.state.service.find(None).updates.join(10)
        assert "see the log" in client.get("/api/v1/update").json()["error"]
        assert "no images" in capsys.readouterr().err
        assert len(client.get("/api/v1/search?q=white").json()["results"]) == 6


def test_queries_at_once_are_embedded_together(index_path: Path) -> None:
    """And each gets its own answer, and a wrong one its own error."""
    sizes: list[int] = []

    class Counting(Colours):
        def embed_sentences(self, sentences: Sequence[str], query: bool = False):
            sizes.append(len(sentences))
            time.sleep(0.05)
            return super().embed_sentences(sentences)

    def ask(q: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{port}/api/v1/search", params={"q": q, "limit": 1})

    with serving(index_path, matcher=Counting()) as port, ThreadPoolExecutor(12) as threads:
        asked = ["something red", "something blue", "green"] * 4 + ["red - 1*red"]
        answers = list(threads.map(ask, asked))
    for q, answer in zip(asked[:-1], answers, strict=False):
        assert q.rpartition(" ")[2] in answer.json()["results"][0]["path"]
    assert answers[-1].status_code == 422
    assert max(sizes) > 1


SERVER = """
import sys, time
from seesay.search import Index
from seesay.web.app import create_app, serve
from seesay.web.service import ServerOptions
from tests.search.colours import Colours
class Slow(Colours):
    def embed_sentences(self, sentences, query=False):
        print("asked", flush=True)
        time.sleep(1.0)
        return super().embed_sentences(sentences)
serve(Index.open(sys.argv[1], Slow()), port=0, options=ServerOptions(ground_run="seesay-ground"))
"""


def test_a_server_that_is_told_to_stop_answers_first(index_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", SERVER, index_path], stdout=subprocess.PIPE, text=True)
    with process, ThreadPoolExecutor(1) as threads:
        address = process.stdout.readline().strip()
        answer = threads.submit(httpx.get, f"{address}/api/v1/search?q=red")
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGTERM)
        assert answer.result().status_code == 200
        assert process.wait(20) in (0, -signal.SIGTERM)


def test_facts_of_a_photo(client: TestClient, photos: Path, index_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "NIKON CORPORATION", "NIKON D90"
    exif.get_ifd(0x8769).update(
        {0x9003: "2019:06:30 12:00:00", 0x829A: 0.004, 0x829D: 2.8, 0x8827: 400, 0x920A: 50.0}
    )
    exif.get_ifd(0x8825)[1] = "N"
    with Image.open(io.BytesIO(picture("white"))) as image:
        image.save(photos / "white.jpg", exif=exif)
    opened(index_path).update_images(photos)
    first = client.get("/api/v1/search?q=white").json()["results"][0]
    facts = client.get(f"/api/v1/images/{first['id']}").json()
    assert (facts["path"], facts["type"], facts["bytes"]) == (
        "white.jpg",
        "image/jpeg",
        (photos / "white.jpg").stat().st_size,
    )
    assert facts["facts"] == {
        "taken": "2019-06-30T12:00:00",
        "camera": "NIKON D90",
        "exposure": "1/250 s",
        "aperture": "f/2.8",
        "iso": "400",
        "focal": "50 mm",
    }
    assert client.get("/api/v1/images").json()["results"][0]["time"] > "2019-06-30"


def test_a_server_that_stops_ends_its_update_and_keeps_what_was_finished(
    index_path: Path, photos: Path
) -> None:
    going = threading.Event()

    class Slow(Colours):
        def embed_photos(self, photos, query=False):
            going.set()
            time.sleep(0.2)
            return super().embed_photos(photos, query)

    new = ["-".join(colours) + ".png" for colours in product(RGB, ("red", "blue"), RGB)]  # of two batches
    gallery(photos, *new)
    with client_of(Index.open(index_path, Slow())) as client:
        assert client.post("/api/v1/update").status_code == 202
        assert going.wait(10)
    with opened(index_path) as index:
        assert 5 < index.count("image") < 5 + len(new)
        index.update_images(photos)
        assert index.count("image") == 5 + len(new)


def test_stacks_are_those_of_the_current_index(client, photos: Path, index_path: Path) -> None:
    assert client.get("/api/v1/images/duplicates").json() == {"index": "index", "groups": []}
    (photos / "red again.png").write_bytes(picture("red", size=(90, 60)))
    opened(index_path).update_images(photos)
    (group,) = client.get("/api/v1/images/duplicates").json()["groups"]
    assert {image["path"] for image in group} == {"red.png", "red again.png"}


def test_comparing_all_images_keeps_no_picture_waiting(index_path: Path, monkeypatch) -> None:
    """And they are compared once, however many ask."""
    going, asked = threading.Event(), []

    def compared(index: Index) -> list[list[int]]:
        asked.append(index)
        going.wait(20)
        return []

    monkeypatch.setattr(Index, "stacks", compared)
    with client_of(index_path) as client, ThreadPoolExecutor(40) as threads:
        waiting = [threads.submit(client.get, "/api/v1/images/duplicates") for _ in range(30)]
        try:
            assert threads.submit(client.get, "/api/v1/images/1/thumbnail").result(10).status_code == 200
        finally:
            going.set()
        assert {each.result(20).status_code for each in waiting} == {200}
    assert len(asked) == 1


def test_an_archive_holds_images_only(client: TestClient, photos: Path) -> None:
    ids = {image["path"]: image["id"] for image in client.get("/api/v1/images").json()["results"]}
    (photos / "blue.png").write_text("no image")
    response = client.get("/api/v1/images/archive", params={"id": list(ids.values())})
    assert response.headers["content-disposition"] == 'attachment; filename="images.zip"'
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == sorted(set(ids) - {"blue.png"})
    (photos / "red.png").unlink()
    response = client.get("/api/v1/images/archive", params={"id": [*ids.values(), 999]})
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert sorted(archive.namelist()) == sorted(set(ids) - {"blue.png", "red.png"})
    assert client.get("/api/v1/images/archive?id=999").status_code == 404
    assert client.get("/api/v1/images/archive").status_code == 422


def test_an_archive_is_bounded_and_looked_at_in_a_thread(index_path: Path, monkeypatch) -> None:
    threads = []

    def format_of(file: FileIO) -> str:
        threads.append(threading.current_thread().name)
        return "PNG"

    monkeypatch.setattr("seesay.web.routes.images.file_format", format_of)
    with client_of(index_path, limits=Limits(archive_bytes=100)) as client:
        refused = client.get("/api/v1/images/archive?id=1&id=2")
    assert (refused.status_code, "request fewer" in refused.json()["detail"]) == (422, True)
    assert len(threads) == 2
    assert all(name.startswith("seesay-file") for name in threads)


@pytest.mark.parametrize("watch", [False, True])
def test_photos_are_indexed_while_the_server_answers_already(tmp_path: Path, watch: bool) -> None:
    photos = gallery(tmp_path / "photos", "red.png", "white.png")
    served = {"new": Index.create(tmp_path / "new", Colours())}
    with client_of(served, photos={"new": [photos]}, watch=watch, ground_run="none") as client:
        assert client.get("/api/v1/status").json()["updating"] is True
        waited(lambda: client.get("/api/v1/status").json()["images"] == 2)
    with Index.open(tmp_path / "new", Colours()) as index:
        assert [root.folder for root in index.roots()] == [photos]


def test_a_watched_folder_is_followed_and_a_moved_file_not_embedded_again(
    index_path: Path, photos: Path
) -> None:
    gallery(photos, "white.png")  # while nobody watched
    colours = Colours()

    def wait_for(paths: set[str]) -> None:
        waited(lambda: {hit["path"] for hit in client.get("/api/v1/images").json()["results"]} == paths)

    with client_of(Index.open(index_path, colours), watch=True, ground_run="none") as client:
        paths = {"red.png", "blue.png", "sub/green.png", "red-blue.png", "yellow-black.png", "white.png"}
        wait_for(paths)
        (photos / "white.png").rename(photos / "moved.png")
        (photos / "red.png").unlink()
        gallery(photos, "sub/black.png")
        wait_for(paths - {"white.png", "red.png"} | {"moved.png", "sub/black.png"})
        client.app.state.service.find(None).updates.join(10)
    assert sorted(colours.embedded) == ["sub/black.png", "white.png"]


def test_a_watch_goes_on_after_a_failure_and_after_its_folder_was_away(
    index_path: Path, photos: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr("seesay.search.watch.TRY_AGAIN_SECONDS", 0.2)
    away = photos.rename(photos.with_name("away"))

    def wait_for(image: str) -> None:
        waited(lambda: image in {hit["path"] for hit in client.get("/api/v1/images").json()["results"]})

    with client_of(index_path, watch=True, ground_run="none") as client:
        waited(lambda: "Trying again in" in capsys.readouterr().err)
        gallery(away, "white.png")
        away.rename(photos)
        wait_for("white.png")
        with monkeypatch.context() as broken:
            broken.setattr(Index, "update_images", lambda *_: 1 / 0)
            gallery(photos, "black.png")
            waited(lambda: "ZeroDivisionError" in capsys.readouterr().err)
        wait_for("black.png")


def test_images_of_several_folders_in_one_archive(tmp_path: Path) -> None:
    folders = [gallery(tmp_path / name, "red.png") for name in ("photos", "scans")]
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(folders)
    with client_of(tmp_path / "index") as client:
        found = client.get("/api/v1/images").json()["results"]
        assert {each["path"] for each in found} == {"photos/red.png", "scans/red.png"}
        ids = [each["id"] for each in found]
        archive = client.get("/api/v1/images/archive", params={"id": ids})
        with zipfile.ZipFile(io.BytesIO(archive.content)) as opened_archive:
            assert set(opened_archive.namelist()) == {"photos/red.png", "scans/red.png"}
        folders[1].rename(tmp_path / "away")
        assert client.get("/api/v1/status").json()["absent"] == ["scans"]
        assert client.post("/api/v1/update").status_code == 202
        waited(lambda: not client.get("/api/v1/update").json()["running"])
        assert client.get("/api/v1/status").json()["images"] == 2


def test_a_server_whose_index_was_deleted_is_not_ready(index_path: Path) -> None:
    with client_of(index_path) as client:
        assert client.get("/readyz").status_code == 200
        shutil.rmtree(index_path)
        assert client.get("/readyz").status_code == 503


def test_a_request_has_an_id_in_the_answer_and_in_the_logs(
    index_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise SeesayError("the disk\nis \x1b[2Jfull")

    with client_of(index_path, access_log=True) as client:
        given = client.get("/healthz", headers={"X-Request-ID": "from-a.proxy_1"})
        assert given.headers["x-request-id"] == "from-a.proxy_1"
        assert client.get("/healthz", headers={"X-Request-ID": "a b"}).headers["x-request-id"] != "a b"
        monkeypatch.setattr(Index, "search", failing)
        failed = client.get("/api/v1/search?q=red")
    told = capsys.readouterr()
    assert failed.headers["x-request-id"] == json.loads(told.out.splitlines()[-1])["id"]
    assert told.err == f"{failed.headers['x-request-id']}: the disk\\nis \\x1b[2Jfull\n"


def test_a_full_temporary_folder_is_no_fault_of_the_client(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", full)
    answer = client.post("/api/v1/search", files={"image": ("a.png", bytes(2_000_000))})
    assert (answer.status_code, answer.json()["status"]) == (507, 507)
    assert "No space left on device" in capsys.readouterr().err


def test_the_server_ends_while_a_disk_holds_a_thread(
    index_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seesay.web.service._STOP_SECONDS", 0.1)
    index = opened(index_path)
    service, is_held, goes_on = create_app(index).state.service, threading.Event(), threading.Event()

    def hold() -> None:
        with index.store.write():
            is_held.set()
            goes_on.wait()

    with ThreadPoolExecutor(2) as threads:
        held = threads.submit(hold)
        is_held.wait()
        try:
            threads.submit(service.close).result(60)
        finally:
            goes_on.set()
        held.result()
