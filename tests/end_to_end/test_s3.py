"""Photos and corpora at s3://, of moto's server: pip install 's3fs' 'moto[server]' to run these tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seesay
from seesay.cli import main
from seesay.data.readers import read_corpus
from seesay.data.remote import path_of
from seesay.encoders import fill_stores, load_image_encoder
from seesay.errors import SeesayError
from seesay.search import Index
from tests.object_stores import ask_again_at_once
from tests.search.colours import Colours

pytestmark = pytest.mark.slow

ENCODER = "efficientnet-lite0-int8"


class Line:
    """A port that passes bytes on to another, and cuts some answers off in the middle."""

    def __init__(self, to: int) -> None:
        self.cuts = 0
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._to))
            threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(2048):
                # An answer longer than its headers is an image; half of it is sent.
                if answers and self.cuts and len(data) > 1000:
                    self.cuts -= 1
                    sink.sendall(data[:1000])
                    break
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install 'seesay[cloud]'")
    server = pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")
    started = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    yield Line(started.get_host_and_port()[1])
    started.stop()


@pytest.fixture
def bucket(line: Line, scenes: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a bucket that holds the scenes."""
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{line.port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    if not store.exists("photos"):
        store.mkdir("photos")
        store.put(str(scenes), "photos/scenes", recursive=True)
    return "s3://photos"


def test_features_and_training_are_those_of_the_disk(bucket: str, scenes: Path, tmp_path: Path) -> None:
    there, here = read_corpus(f"{bucket}/scenes"), read_corpus(scenes)
    assert there.sentences == here.sentences
    encoder = load_image_encoder(ENCODER)
    found = [
        fill_stores([encoder], tmp_path / name, corpus.images)
        for name, corpus in (("there", there), ("here", here))
    ]
    assert found[0].errors == []
    assert found[0].keys == found[1].keys
    keys = [key for key in found[0].keys if key]
    for name in encoder.dims:
        np.testing.assert_array_equal(
            found[0].stores[0].read(keys, name), found[1].stores[0].read(keys, name)
        )


def test_training_reads_a_corpus_of_a_bucket(bucket: str, scenes: Path, tmp_path: Path) -> None:
    weights = []
    for name, data in (("there", f"{bucket}/scenes"), ("here", scenes)):
        run = seesay.train("irmatch-s", data, out=tmp_path / name, epochs=1, encoders=[ENCODER])
        weights.append([weight.detach().numpy() for weight in run.matcher.parameters()])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_cluster_reads_a_bucket(bucket: str, scenes: Path, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'seesay[cluster]'")
    from seesay.encoders.images.cluster import fill_stores_on_cluster

    encoder = load_image_encoder(ENCODER)
    images = read_corpus(f"{bucket}/scenes").images
    ray.init(address="local", num_cpus=1, object_store_memory=100 << 20, log_to_driver=False)
    try:
        together = fill_stores_on_cluster([encoder], tmp_path / "together", images, "auto")
        again = fill_stores_on_cluster([encoder], tmp_path / "together", images, "auto")
    finally:
        ray.shutdown()
    alone = fill_stores([encoder], tmp_path / "alone", read_corpus(scenes).images)
    assert (together.errors, together.keys, together.encoded) == ([], alone.keys, alone.encoded)
    assert (again.keys, again.encoded) == (alone.keys, 0)


def test_connections_lost_in_the_middle_lose_no_image(
    line: Line, bucket: str, scenes: Path, tmp_path: Path
) -> None:
    with Index.create(tmp_path / "index", Colours()) as index:
        line.cuts = 5
        report = index.update_images(f"{bucket}/scenes/images")
        assert line.cuts == 0
        assert report.skipped == []
        assert report.added == len(list((scenes / "images").iterdir()))
        assert index.update_images(f"{bucket}/scenes/images").unchanged == report.added


def test_the_command_line_takes_addresses(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*arguments: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return ended.value.code, printed.out + printed.err

    features = ("--encoder", ENCODER, "--out", str(tmp_path / "features"))
    index = str(tmp_path / "index")
    code, said = told("features", f"{bucket}/scenes", *features)
    assert code == 0
    assert "encoded now" in said
    code, said = told("features", "s3://no-such-bucket/x", *features)
    assert code == 2
    assert "s3://no-such-bucket/x: no such folder or file" in said
    assert told("index", f"{bucket}/scenes/images", "--out", index)[0] == 0
    code, said = told("search", index, "a red circle", "-k", "1")
    assert code == 0
    assert f"{bucket}/scenes/images/scene_" in said
    code, said = told("index", f"{bucket}/scenes/images", "--out", index, "--watch")
    assert code == 2
    assert "--watch: " in said


def test_without_rights_or_a_server_one_line_says_so(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    ask_again_at_once(monkeypatch)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(SeesayError, match="not allowed: Unable to locate credentials"):
        read_corpus(f"{bucket}/scenes")


def test_a_file_and_a_folder_may_have_one_name(bucket: str) -> None:
    import s3fs

    for name in ("a.jpg", "a.jpg/b.jpg", "c.jpg"):
        s3fs.S3FileSystem().pipe(f"{bucket}/names/{name}", b"1")
    names: Any = path_of(f"{bucket}/names")
    names.forget()
    assert [path.relative_to(names).as_posix() for path, _ in names.walk()] == [
        "a.jpg",
        "c.jpg",
        "a.jpg/b.jpg",
    ]


def test_ranges_behind_the_end_are_empty(bucket: str) -> None:
    file = path_of(f"{bucket}/scenes/phrases.tsv")
    remote: Any = file
    assert remote.read_range(10**9, 10**9 + 5) == b""
    assert len(remote.read_range(0, 10**9)) == file.stat().st_size
