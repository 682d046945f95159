import io
import os
import re
import shutil
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from itertools import cycle
from pathlib import Path

import pillow_heif
import pytest
from fastapi.testclient import TestClient
from PIL import ExifTags, Image

from seesay.errors import SeesayError
from seesay.search import Index
from seesay.search.store import Store
from seesay.web.app import create_app
from seesay.web.routes import images
from seesay.web.security import Limits
from seesay.web.service import ServerOptions
from tests.search.colours import Colours, gallery, opened, picture
from tests.web.conftest import client_of


def test_search(client: TestClient) -> None:
    answer = client.get("/api/v1/search", params={"q": "something green", "limit": 2}).json()
    assert answer["results"][0]["path"] == "sub/green.png"
    assert len(answer["results"]) == 2
    first = answer["results"][0]
    assert first["score"] == pytest.approx(1, abs=1e-3)
    assert (first["width"], first["height"]) == (60, 40)
    assert client.get(f"/api/v1/images/{first['id']}/thumbnail").headers["content-type"] == "image/jpeg"


def test_uploads_find_images_and_sentences(client: TestClient) -> None:
    files = {"image": ("mine.png", picture("red"))}
    images = client.post("/api/v1/search", params={"limit": 1}, files=files).json()["results"]
    assert [image["path"] for image in images] == ["red.png"]
    sentences = client.post("/api/v1/sentences", params={"limit": 1}, files=files).json()["results"]
    assert [sentence["text"] for sentence in sentences] == ["something red"]


def test_queries_of_several_parts(client: TestClient) -> None:
    answer = client.get("/api/v1/search", params={"q": "red - 0.7*blue"}).json()
    assert answer["query"] == [
        {"text": "+ red", "weight": 1},
        {"text": "- 0.7*blue", "weight": -0.7},
    ]
    assert [hit["path"] for hit in answer["results"]][::4] == ["red.png", "blue.png"]
    like = client.get("/api/v1/search", params={"q": f"id:{answer['results'][0]['id']}"}).json()
    assert like["results"][0]["path"] == "red-blue.png"
    assert len(like["results"]) == 4
    assert like["unknown_words"] == []


@pytest.mark.usefixtures("index_path")  # so that nobody else asks the same server
def test_misspelt_words_are_corrected(client: TestClient) -> None:
    client.app.state.service.find(None).index.run.misspelt["bleu"] = "blue"
    answer = client.get("/api/v1/search", params={"q": "Bleu", "limit": 1}).json()
    assert (answer["results"][0]["path"], answer["corrected_words"]) == ("blue.png", {"bleu": "blue"})
    assert answer["q"] == "Bleu"
    quoted = client.get("/api/v1/search", params={"q": '"Bleu"'}).json()
    assert (quoted["q"], quoted["corrected_words"]) == ('"Bleu"', {})


def test_uploads_among_other_parts(client: TestClient) -> None:
    files = {"image": ("a.png", picture("red"))}

    def found(q: str) -> dict:
        return client.post("/api/v1/search", params={"q": q}, files=files).json()

    assert found("")["results"][0]["path"] == "red.png"
    assert found("5*green")["results"][0]["path"] == "sub/green.png"
    uploaded = found("blue")
    assert uploaded["results"][0]["path"] == "red-blue.png"
    without = uploaded["q"].replace("+ upload:", "- upload:")
    assert client.get("/api/v1/search", params={"q": without}).json()["results"][0]["path"] == "blue.png"


@pytest.mark.parametrize(
    "q", ["image:/etc/passwd", "red + photo.jpg", "image:3", "image:01", 'image:"../red.png"']
)
def test_a_query_over_http_opens_no_file(client: TestClient, q: str) -> None:
    files = {"image": ("a.png", picture("red"))}
    for response in (
        client.get("/api/v1/search", params={"q": q}),
        client.post("/api/v1/search", params={"q": q}, files=files),
    ):
        assert response.status_code == 422
        assert "opens no files" in response.json()["detail"]


@pytest.mark.parametrize("q", ["- red", "red + ", "id:99", "red - 1*red", "1000*red", " + ".join(["a"] * 17)])
def test_a_wrong_query_is_told_in_one_line(client: TestClient, q: str) -> None:
    response = client.get("/api/v1/search", params={"q": q})
    assert response.status_code == 422
    assert len(response.json()["detail"].splitlines()) == 1


def test_filters(client: TestClient) -> None:
    def paths(where: str) -> list[str]:
        answer = client.get("/api/v1/search", params={"q": "red", "where": where}).json()
        return [hit["path"] for hit in answer["results"]]

    assert paths("folder:sub") == ["sub/green.png"]
    assert paths("name:none") == []
    response = client.get("/api/v1/search", params={"q": "red", "where": "taken:soon"})
    assert response.status_code == 422
    assert "no date" in response.json()["detail"]


def test_status(client: TestClient) -> None:
    status = client.get("/api/v1/status").json()
    assert (status["images"], status["sentences"], status["matcher"]) == (5, 6, "colours")
    assert status["not_read"] == []


def test_status_tells_what_was_not_read(client: TestClient, photos: Path, index_path: Path) -> None:
    (photos / "film.mp4").write_bytes(b"")
    opened(index_path).update_images(photos)
    assert client.get("/api/v1/status").json()["not_read"] == ["1 video file: only images are searched"]


def test_status_names_no_folder_of_the_server(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the command that installs an extra would."""
    monkeypatch.setattr(Store, "not_read", lambda _: {"raw": 1})
    assert client.get("/api/v1/status").json()["not_read"] == ["1 raw file: the server needs the extra raw"]


def test_originals_come_unchanged_with_their_type_by_content(
    client: TestClient, photos: Path, index_path: Path
) -> None:
    (photos / "really a.png").write_bytes(picture("white", format="JPEG"))
    opened(index_path).update_images(photos)
    first = client.get("/api/v1/search", params={"q": "white"}).json()["results"][0]
    response = client.get(f"/api/v1/images/{first['id']}/original")
    assert response.content == (photos / "really a.png").read_bytes()
    assert response.headers["content-type"] == "image/jpeg"
    assert response.headers["content-disposition"].startswith("inline")
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(("name", "format"), [("a.heic", "HEIF"), ("a.tif", "TIFF"), ("a.jp2", "JPEG2000")])
def test_formats_that_browsers_do_not_show_are_sent_as_jpeg_in_full_size(
    name: str, format: str, client: TestClient, photos: Path, index_path: Path
) -> None:
    pillow_heif.register_heif_opener()
    out, exif = io.BytesIO(), Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # of a phone held upright
    Image.new("RGB", (1600, 1200), "white").save(out, format, **({"exif": exif} if format == "HEIF" else {}))
    (photos / name).write_bytes(out.getvalue())
    opened(index_path).update_images(photos)
    first = client.get("/api/v1/search", params={"q": "white"}).json()["results"][0]
    response = client.get(f"/api/v1/images/{first['id']}/view")
    with Image.open(io.BytesIO(response.content)) as image:
        assert (image.format, image.size) == ("JPEG", (first["width"], first["height"]))
        assert sorted(image.size) == [1200, 1600]
        assert min(image.convert("RGB").getpixel((600, 600))) > 245


def test_an_upload_is_sent_back_as_jpeg(client: TestClient) -> None:
    pillow_heif.register_heif_opener()
    out = io.BytesIO()
    Image.new("RGB", (90, 60), "white").save(out, "HEIF")
    response = client.post("/api/v1/images/jpeg", files={"image": ("mine.heic", out.getvalue())})
    with Image.open(io.BytesIO(response.content)) as image:
        assert (image.format, image.size) == ("JPEG", (90, 60))
    damaged = client.post("/api/v1/images/jpeg", files={"image": ("mine.heic", out.getvalue()[:99])})
    assert damaged.status_code == 422


def test_a_damaged_photo_that_browsers_do_not_show_has_no_jpeg(client: TestClient, photos: Path) -> None:
    for file in photos.rglob("*.png"):
        file.write_bytes(picture("red", format="PPM")[:60])
    response = client.get("/api/v1/images/1/view")
    assert response.status_code == 422
    assert "damaged" in response.json()["detail"]


@pytest.mark.parametrize("what", ["thumbnail", "view"])
def test_a_jpeg_is_sent_once(what: str, client: TestClient) -> None:
    address = f"/api/v1/images/1/{what}"
    first = client.get(address)
    again = client.get(address, headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_an_original_that_is_deleted_while_it_is_sent_comes_whole(
    client: TestClient, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    red = (photos / "red.png").read_bytes()
    (image,) = client.get("/api/v1/images?where=name:red.png").json()["results"]
    format_of = images.file_format

    def then_deleted(file: FileIO) -> str | None:
        (photos / "red.png").unlink()
        return format_of(file)

    monkeypatch.setattr(images, "file_format", then_deleted)
    assert client.get(f"/api/v1/images/{image['id']}/original").content == red
    assert client.get(f"/api/v1/images/{image['id']}/original").status_code == 404


@pytest.mark.parametrize("route", ["original", "thumbnail", "view", "ground?q=a+dog", ""])
@pytest.mark.parametrize("swapped", ["link", "folder's link", "pipe", "folder", "nothing"])
def test_what_takes_the_place_of_a_photo_is_neither_sent_nor_waited_for(
    client: TestClient, index_path: Path, photos: Path, tmp_path: Path, swapped: str, route: str
) -> None:
    shutil.rmtree(index_path / "thumbnails")
    secret = gallery(tmp_path / "secret", "red.png", "sub/green.png") / "sub/green.png"
    (image,) = client.get("/api/v1/images?where=name:green.png").json()["results"]
    (photos / "sub/green.png").unlink()
    match swapped:
        case "link":
            (photos / "sub/green.png").symlink_to(secret)
        case "folder's link":
            (photos / "sub").rmdir()
            (photos / "sub").symlink_to(secret.parent)
        case "pipe":
            os.mkfifo(photos / "sub/green.png")
        case "folder":
            (photos / "sub/green.png").mkdir()
    answer = client.get(f"/api/v1/images/{image['id']}/{route}".rstrip("/"))
    if route:
        assert answer.status_code == 404
    else:
        assert (answer.json()["type"], answer.json()["facts"]) == (None, {})
    assert client.get(f"/api/v1/images/archive?id={image['id']}").status_code == 404


def test_a_photo_that_is_swapped_all_the_time_never_leads_elsewhere(
    client: TestClient, photos: Path, tmp_path: Path
) -> None:
    """The attack `swaps` of `make torture` does so for a minute."""
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture("black", size=(64, 48)))
    (image,) = client.get("/api/v1/images?where=name:red.png").json()["results"]
    kept, ended = (photos / "red.png").read_bytes(), threading.Event()
    (photos / "kept").write_bytes(kept)
    (photos / "link").symlink_to(secret)
    os.mkfifo(photos / "pipe")

    def swap() -> None:
        for name in cycle(("link", "kept", "pipe", "kept")):
            other = photos / "other"
            other.hardlink_to(photos / name) if name == "kept" else (photos / name).rename(other)
            other.replace(photos / "red.png")
            if name == "link":
                (photos / name).symlink_to(secret)
            elif name == "pipe":
                os.mkfifo(photos / name)
            if ended.is_set():
                return

    with ThreadPoolExecutor(1) as threads:
        swapping = threads.submit(swap)
        try:
            answers = [client.get(f"/api/v1/images/{image['id']}/original") for _ in range(150)]
        finally:
            ended.set()
        swapping.result(10)
    assert {answer.status_code for answer in answers} == {200, 404}
    assert {answer.content for answer in answers if answer.status_code == 200} == {kept}


@pytest.mark.parametrize("asked", ["bytes=2-5", "bytes=5-2", "bytes=999999-", "pages=1-2"])
def test_files_come_whole_whatever_range_is_asked_for(client: TestClient, asked: str) -> None:
    for address in ("/api/v1/images/1/original", "/static/app.js"):
        whole = client.get(address)
        answer = client.get(address, headers={"Range": asked})
        assert (answer.status_code, answer.content) == (200, whole.content)


def test_an_archive_leaves_out_what_is_deleted_meanwhile(
    client: TestClient, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    format_of = images.file_format

    def then_deleted(file: FileIO) -> str | None:
        Path(str(file.name)).unlink()
        return format_of(file)

    monkeypatch.setattr(images, "file_format", then_deleted)
    answer = client.get("/api/v1/images/archive?id=1&id=2")
    assert (answer.status_code, zipfile.ZipFile(io.BytesIO(answer.content)).namelist()) == (200, [])


def test_names_in_an_archive_are_safe_and_files_keep_their_times(
    client: TestClient, photos: Path, index_path: Path
) -> None:
    for number, name in enumerate(("C:evil.png", "a\\evil.png", "a_evil.png")):
        (photos / name).write_bytes(picture("white", size=(60 + number, 40)))
        os.utime(photos / name, (1e9, 1e9))
    opened(index_path).update_images(photos)
    found = [each for each in client.get("/api/v1/images").json()["results"] if "evil" in each["path"]]
    answer = client.get("/api/v1/images/archive", params={"id": [image["id"] for image in found]})
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert sorted(archive.namelist()) == ["C_evil.png", "_a_evil.png", "a_evil.png"]
        assert {entry.date_time[:3] for entry in archive.infolist()} == {(2001, 9, 9)}


def test_an_answer_whose_disk_stops_answering_is_cut(
    index_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    going = threading.Event()

    def parts(*_: object) -> Iterator[bytes]:
        yield b"PK"
        going.wait(20)

    monkeypatch.setattr(images, "zipped", parts)
    with client_of(index_path, limits=Limits(seconds=0.2)) as client:
        started = time.monotonic()
        try:
            client.get("/api/v1/images/archive?id=1")
        finally:
            going.set()
        assert time.monotonic() - started < 10
    assert "/api/v1/images/archive: not sent to its end" in capsys.readouterr().err


def test_an_original_is_sent_again_when_it_changed(client: TestClient, photos: Path) -> None:
    address = "/api/v1/images/1/original"
    tag = client.get(address).headers["etag"]
    again = client.get(address, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    for file in photos.rglob("*.png"):
        file.write_bytes(file.read_bytes() + b" ")
    assert client.get(address, headers={"If-None-Match": tag}).status_code == 200


def test_the_index_is_read_again_when_it_changed(client, photos: Path, index_path: Path) -> None:
    assert len(client.get("/api/v1/search", params={"q": "white"}).json()["results"]) == 5
    gallery(photos, "white.png")
    opened(index_path).update_images(photos)
    results = client.get("/api/v1/search", params={"q": "white"}).json()["results"]
    assert results[0]["path"] == "white.png"
    assert len(results) == 6


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/v1/search", 422),
        ("/api/v1/search?q=", 422),
        ("/api/v1/search?q=%20%20", 422),
        ("/api/v1/search?q=red&limit=0", 422),
        ("/api/v1/search?q=red&limit=201", 422),
        ("/api/v1/search?q=red&limit=many", 422),
        ("/api/v1/search?q=" + "a" * 1001, 422),
        ("/api/v1/images/999", 404),
        ("/api/v1/images/0", 422),
        ("/api/v1/images/99999999999999999999999", 422),
        ("/api/v1/images/6", 404),  # a sentence
        ("/api/v1/images/..%2F..%2Fetc%2Fpasswd", 404),
        ("/api/v1/images/../../../etc/passwd", 404),
        ("/api/v1/nothing", 404),
        ("/nothing", 404),
        ("/static/..%2fapp.py", 404),
    ],
)
def test_failures_are_json_with_their_status(client: TestClient, address: str, status: int) -> None:
    response = client.get(address)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert (body["type"], body["status"]) == ("about:blank", status)
    assert body["title"]
    assert body["detail"]


def test_a_wrong_parameter_is_named(client: TestClient) -> None:
    response = client.get("/api/v1/images/archive?id=abc")
    assert (response.status_code, response.json()["detail"][:4]) == (422, "id: ")


def test_browsers_ask_whether_a_file_has_changed(client: TestClient) -> None:
    for address in ("/", "/static/app.js", "/api/v1/status"):
        assert client.get(address).headers["cache-control"] == "private, no-cache"


def test_uploads_that_are_no_images(client: TestClient) -> None:
    response = client.post("/api/v1/search", files={"image": ("x.jpg", b"no image")})
    assert response.status_code == 422
    assert response.json()["detail"].startswith("the image: ")
    assert client.post("/api/v1/search").status_code == 422
    assert client.post("/api/v1/search", data={"image": "/etc/passwd"}).status_code == 422
    assert client.get("/api/v1/sentences").status_code == 405


def test_large_uploads_are_refused_announced_or_streamed(index_path: Path) -> None:
    sent = 0

    def endless():
        nonlocal sent
        yield b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
        for _ in range(1000):
            sent += 1
            yield bytes(10_000)

    with client_of(index_path, limits=Limits(upload_bytes=100_000)) as client:
        announced = client.post("/api/v1/search", files={"image": ("x.jpg", bytes(200_000))})
        inside = client.post("/api/v1/search", files={"image": ("x.jpg", bytes(120_000))})
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        streamed = client.post("/api/v1/sentences", content=endless(), headers=headers)
        form = {"Content-Type": "application/x-www-form-urlencoded"}  # which takes long to parse
        separators = client.post("/login", content=b"&" * 90_000 * 2, headers=form)
    for response in (announced, inside, streamed, separators):
        assert response.status_code == 413
        assert "smaller" in response.json()["detail"]


def test_a_request_that_takes_too_long_is_ended(index_path: Path) -> None:
    answered = threading.Event()

    class Slow(Colours):
        def embed_sentences(self, sentences, query=False):
            answered.wait(20)
            return super().embed_sentences(sentences)

    with client_of(Index.open(index_path, Slow()), limits=Limits(seconds=0.2)) as client:
        response = client.get("/api/v1/search?q=red")
        answered.set()
        assert response.status_code == 503
        assert "too long" in response.json()["detail"].lower()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("192.168.1.7", 200),
        ("evil.example:8000", 400),
        ("localhost.evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("", 400),
    ],
)
def test_the_server_answers_to_its_own_names_only(client: TestClient, host: str, status: int) -> None:
    response = client.get("/api/v1/status", headers={"Host": host})
    assert response.status_code == status
    assert "content-security-policy" in response.headers


def test_files_outside_the_root_are_never_sent(client, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(picture("black"))
    (photos / "red.png").unlink()
    (photos / "red.png").symlink_to(tmp_path / "secret.png")
    ids = {image["path"]: image["id"] for image in client.get("/api/v1/search?q=red").json()["results"]}
    original, thumbnail = (
        client.get(f"/api/v1/images/{ids['red.png']}/{kind}") for kind in ("original", "thumbnail")
    )
    assert original.status_code == 404
    assert str(tmp_path) not in original.text
    with Image.open(io.BytesIO(thumbnail.content)) as stored:  # of what was indexed
        assert stored.convert("RGB").getpixel((9, 9))[0] > 200


def test_what_is_no_image_by_its_content_is_never_sent(client, photos: Path) -> None:
    ids = {image["path"]: image["id"] for image in client.get("/api/v1/search?q=red").json()["results"]}
    (photos / "red.png").write_text("root:x:0:0:root:/root:/bin/bash\n")
    for address in (
        f"/api/v1/images/{ids['red.png']}/original",
        f"/api/v1/images/{ids['red.png']}/thumbnail",
    ):
        response = client.get(address)
        assert response.headers["content-type"] != "text/plain"
        assert b"bash" not in response.content
    assert client.get(f"/api/v1/images/{ids['red.png']}/original").status_code == 404
    (photos / "red.png").write_bytes(
        picture("red", format="PPM")
    )  # browsers do not show it, but it is an image
    response = client.get(f"/api/v1/images/{ids['red.png']}/original")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/octet-stream")
    assert response.headers["content-disposition"].startswith("attachment")


def test_an_index_made_elsewhere_is_served_from_a_confirmed_folder_only(
    index_path: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "another user's"))
    with pytest.raises(SeesayError, match=rf"not made here by you.*--root {photos}"):
        create_app(opened(index_path))
    with pytest.raises(SeesayError, match="not a folder"):
        Index.open(index_path, Colours(), root=tmp_path / "nowhere")
    copied = shutil.copytree(photos, tmp_path / "copied")
    shutil.rmtree(photos)
    with TestClient(
        create_app(Index.open(index_path, Colours(), root=copied)), base_url="http://a"
    ) as client:
        client.headers["Host"] = "localhost"
        assert client.get("/api/v1/images/1/original").status_code == 200
    with Index.open(index_path, Colours()) as mine:
        mine.update_images(copied)
    create_app(opened(index_path))


def test_a_folder_that_another_user_adds_is_neither_shown_nor_confirmed(
    index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client_of(index_path) as client:
        with monkeypatch.context() as another:
            another.setenv("SEESAY_CACHE", str(tmp_path / "another user's"))
            with Index.open(index_path, Colours()) as theirs:
                theirs.update_images(gallery(tmp_path / "private", "red.png"))
        with opened(index_path) as index:
            found = {item.path: id_ for id_, item in index.store.photos(list(range(1, 30))).items()}
        for part in ("original", "thumbnail"):
            status = {
                path: client.get(f"/api/v1/images/{found[path]}/{part}").status_code
                for path in ("photos/red.png", "private/red.png")
            }
            assert status == {"photos/red.png": 200, "private/red.png": 404}
        ids = [found["photos/red.png"], found["private/red.png"]]
        archive = client.get("/api/v1/images/archive", params={"id": ids})
        assert zipfile.ZipFile(io.BytesIO(archive.content)).namelist() == ["photos/red.png"]
        assert client.post("/api/v1/update").status_code == 202
        while (state := client.get("/api/v1/update").json())["running"]:
            time.sleep(0.01)
        assert "see the log" in state["error"]
        with opened(index_path) as index, pytest.raises(SeesayError, match=r"show the images in .*private"):
            index.check_roots()


def test_every_route_documents_its_failures(client: TestClient) -> None:
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for operation in operations.values():
            assert {"400", "403", "429", "431", "500", "503"} <= set(operation["responses"]), path
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert list(answer["content"]) == ["application/problem+json"], (path, status)
    answers = client.get("/openapi.json").json()["paths"]["/api/v1/images/{id}/original"]["get"]
    statuses = {"200", "400", "401", "403", "404", "422", "429", "431", "500", "503"}
    assert set(answers["responses"]) == statuses
    assert list(answers["responses"]["404"]["content"]) == ["application/problem+json"]


def test_files_are_described_as_bytes_which_generators_of_clients_keep(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for path in ("{id}/original", "{id}/view", "{id}/thumbnail", "archive", "jpeg"):
        (operation,) = paths[f"/api/v1/images/{path}"].values()
        content = operation["responses"]["200"]["content"]
        assert content["application/octet-stream"]["schema"] == {"type": "string", "format": "binary"}, path


def test_a_parameter_that_a_route_does_not_have_is_refused(client: TestClient) -> None:
    response = client.get("/api/v1/search", params={"q": "red", "were": "name:red"})
    assert response.status_code == 422
    assert response.json()["detail"] == "There is no parameter 'were'; did you mean 'where'?"
    assert client.get("/api/v1/indexes?x=1").status_code == 422
    assert client.get("/api/v1/indexes?index=photos").status_code == 200  # as the page asks
    assert client.get("/api/v1/status?index=").status_code == 404


def test_the_schema_names_operations_and_the_token(index_path: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef0123")
    app = create_app(opened(index_path), ServerOptions(token_file=tmp_path / "token"))
    paths = app.openapi()["paths"]
    assert paths["/api/v1/search"]["get"]["operationId"] == "search"
    assert paths["/api/v1/search"]["get"]["security"] == [{"token": []}]
    assert "security" not in paths["/healthz"]["get"]
    names = [operation["operationId"] for operations in paths.values() for operation in operations.values()]
    assert len(set(names)) == len(names)
    assert app.openapi()["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}


def test_work_keeps_its_thread_when_its_client_has_left(index_path: Path) -> None:
    class Slow(Colours):
        working = most = 0

        def embed_sentences(self, sentences, query=False):
            Slow.working += 1
            Slow.most = max(Slow.most, Slow.working)
            time.sleep(0.3)
            Slow.working -= 1
            return super().embed_sentences(sentences)

    with client_of(Index.open(index_path, Slow()), limits=Limits(seconds=0.05)) as client:
        for i in range(3 * (os.cpu_count() or 1)):
            assert client.get(f"/api/v1/search?q=red+{i}").status_code == 503
    assert 0 < Slow.most <= (os.cpu_count() or 1)


def test_no_more_uploads_are_in_memory_than_there_are_threads_for_them(index_path: Path) -> None:
    """However many are sent, and also while they are embedded."""

    class Slow(Colours):
        working = most = 0

        def embed_photos(self, photos, query=False):
            Slow.working += 1
            Slow.most = max(Slow.most, Slow.working)
            time.sleep(0.1)
            Slow.working -= 1
            return super().embed_photos(photos, query)

    files = {"image": ("a.png", picture("red"))}
    with client_of(Index.open(index_path, Slow())) as client, ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(client.post, "/api/v1/search", files=files) for _ in range(8)]
        assert {each.result().status_code for each in asked} == {200}
    assert 0 < Slow.most <= max(1, (os.cpu_count() or 1) // 2)


def test_uploads_of_too_many_pixels_or_too_long_to_decode_are_refused(index_path: Path) -> None:
    limits = Limits(upload_pixels=1000, decode_seconds=5)
    with client_of(index_path, limits=limits) as client:
        response = client.post("/api/v1/search", files={"image": ("a.png", picture("red"))})
    assert response.status_code == 422
    assert "more than 1000 pixels" in response.json()["detail"]


def test_an_upload_is_scored_as_the_file_would_be(client: TestClient, index_path: Path) -> None:
    photo = picture("red", "blue", size=(2000, 1500), format="JPEG")
    found = client.post("/api/v1/search", files={"image": ("a.jpg", photo)}).json()["results"]
    with opened(index_path) as index:
        assert [hit["path"] for hit in found[:1]] == [index.search(photo, 1)[0].path]


def test_an_internal_error_is_json_without_details(index_path: Path) -> None:
    class Broken(Colours):
        def embed_sentences(self, sentences, query=False):
            raise RuntimeError("secret")

    app = create_app(Index.open(index_path, Broken()))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        response = client.get("/api/v1/search?q=red")
        assert response.status_code == 500
        assert "secret" not in response.json()["detail"]


def test_pages_need_nothing_from_elsewhere(client: TestClient) -> None:
    static = Path(__file__).parents[2] / "src/seesay/web/static"
    pages = [
        client.get(f"/static/{file.relative_to(static).as_posix()}")
        for file in static.rglob("*")
        if file.is_file()
    ]
    pages.append(client.get("/"))
    for page in pages:
        assert page.status_code == 200
        text = page.text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|src=\"//|@import", text)
    csp = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in csp
    assert "unsafe" not in csp
