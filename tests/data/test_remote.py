"""Corpora at URLs: the same as on a disk, whatever fails for a while."""

from __future__ import annotations

import pickle
import tarfile
from pathlib import Path
from threading import Barrier

import fsspec
import numpy as np
import pytest

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.data.remote import path_of
from seesay.data.sources import FileSource
from seesay.encoders import fill_stores, load_image_encoder
from seesay.errors import ImageError, SeesayError, UnavailableImageError
from tests.object_stores import Flaky, ask_again_at_once, lost, uploaded


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_again_at_once(monkeypatch)


def content(corpus: Corpus) -> list[object]:
    return [
        [(image.name, image.split, image.source and image.source.read()) for image in corpus.images],
        corpus.sentences,
        corpus.issues.counts,
    ]


def shards(scenes: Path, folder: Path) -> Path:
    """The images of some scenes with a sentence each, in two tars."""
    corpus = read_corpus(scenes)
    folder.mkdir()
    for number, split in enumerate(("train", "val")):
        with tarfile.open(folder / f"{split}-{number}.tar", "w") as tar:
            for image in corpus.split(split).images[:6]:
                assert isinstance(image.source, FileSource)
                tar.add(image.source.path, f"./{image.name}")
                caption = folder.parent / "caption"
                caption.write_text(f"{image.name} is here\n")
                tar.add(caption, f"./{Path(image.name).stem}.txt")
    return folder


@pytest.mark.parametrize("kind", ["captions", "folder", "tars"])
def test_a_corpus_at_a_url_is_that_of_the_disk(kind: str, scenes: Path, tmp_path: Path) -> None:
    local = {"captions": scenes, "folder": scenes / "images"}.get(kind) or shards(scenes, tmp_path / "tars")
    url = uploaded(local, local.name)
    remote, here = read_corpus(url), read_corpus(local)
    assert content(remote) == content(here)
    assert (remote.name, str(remote.root)) == (here.name, url)
    again = pickle.loads(pickle.dumps(remote.images[0]))  # noqa: S301 — as Ray sends it to workers
    assert again.source.read(10) == remote.images[0].source.read(10)  # type: ignore[union-attr]


def test_a_tar_is_read_once_and_then_by_ranges(scenes: Path, tmp_path: Path) -> None:
    corpus = read_corpus(uploaded(shards(scenes, tmp_path / "tars"), "tars"), "webdataset")
    assert len(corpus.sentences) == 12
    assert sorted(Flaky.reads) == ["train-0.tar", "val-1.tar"]
    assert len(corpus.images[3].source.read(100)) == 100  # type: ignore[union-attr]


def test_phrases_are_measured_in_place(scenes: Path) -> None:
    local, remote = read_corpus(scenes, phrases=True), read_corpus(uploaded(scenes, "scenes"), phrases=True)
    assert remote.sentences == local.sentences
    assert [image.size for image in remote.images] == [image.size for image in local.images]


def test_what_fails_for_a_while_is_tried_again_and_then_counted(scenes: Path, tmp_path: Path) -> None:
    url = uploaded(scenes / "images", "photos")
    first, second, *_ = (image.name for image in read_corpus(url).images)
    Flaky.failures |= {"photos": lost(2), first: lost(2), second: lost(3)}
    images = read_corpus(url).images[:6]
    encoder = load_image_encoder("efficientnet-lite0-int8")
    filled = fill_stores([encoder], tmp_path / "features", images)
    (error,) = filled.errors
    assert isinstance(error, UnavailableImageError)
    assert str(error) == f"{url}/{second}: cannot be read (connection lost)."
    assert filled.encoded == 5
    again = fill_stores([encoder], tmp_path / "features", images)
    assert (again.encoded, again.errors) == (1, [])
    local = read_corpus(scenes / "images").images[:6]
    here = fill_stores([encoder], tmp_path / "here", local)
    assert here.keys == again.keys
    for name in encoder.dims:
        keys = [key for key in here.keys if key]
        np.testing.assert_array_equal(here.stores[0].read(keys, name), again.stores[0].read(keys, name))


def test_images_are_asked_for_at_once(scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = read_corpus(uploaded(scenes / "images", "photos")).images[:8]
    monkeypatch.setattr(Flaky, "waiting", Barrier(8))
    filled = fill_stores([load_image_encoder("efficientnet-lite0-int8")], tmp_path / "features", images)
    assert (filled.encoded, filled.errors) == (8, [])


@pytest.mark.parametrize("kind", ["folder", "tars"])
def test_stored_features_are_not_fetched_again(kind: str, scenes: Path, tmp_path: Path) -> None:
    local = shards(scenes, tmp_path / "tars") if kind == "tars" else scenes / "images"
    url = uploaded(local, "photos")
    encoder = load_image_encoder("efficientnet-lite0-int8")
    first = fill_stores([encoder], tmp_path / "features", read_corpus(url).images[:8])
    assert first.encoded == 8
    images = read_corpus(url).images[:8]
    Flaky.reads.clear()
    again = fill_stores([encoder], tmp_path / "features", images)
    assert Flaky.reads == []
    assert (again.keys, again.encoded) == (first.keys, 0)
    if kind == "folder":
        other = (scenes / "images" / "scene_00020.jpg").read_bytes()
        fsspec.filesystem("flaky").pipe_file(f"/bucket/photos/{images[0].name}", other)
        changed = fill_stores([encoder], tmp_path / "features", read_corpus(url).images[:8])
        assert (changed.encoded, changed.keys[1:]) == (1, first.keys[1:])


def test_failures_are_a_line_that_names_the_url(scenes: Path) -> None:
    url = uploaded(scenes, "scenes")
    with pytest.raises(SeesayError, match=r"^flaky://nowhere/scenes: no such folder or file\.$"):
        read_corpus("flaky://nowhere/scenes")
    Flaky.failures["scenes"] = [PermissionError("Access Denied")]
    with pytest.raises(SeesayError, match=rf"^{url}: cannot be read \(not allowed: Access Denied\)\.$"):
        read_corpus(url)
    Flaky.failures["scenes"] = lost(3)
    with pytest.raises(SeesayError, match=rf"^{url}: cannot be read \(connection lost\)\.$"):
        read_corpus(url)
    with pytest.raises(SeesayError, match="nope://x: not an address that fsspec knows"):
        read_corpus("nope://x")


def test_what_is_read_from_a_disk_only_says_so(tmp_path: Path) -> None:
    for name in ("train_ims.npy", "test_ims.npy"):
        np.save(tmp_path / name, np.ones((1, 4), np.float32))
    for name in ("train_caps.txt", "test_caps.txt"):
        (tmp_path / name).write_text("a dog\n")
    with pytest.raises(SeesayError, match=r"ims\.npy: seesay reads this from a disk only; copy it"):
        read_corpus(uploaded(tmp_path, "features"), "precomp")


def test_hidden_files_are_left_out_and_names_that_are_no_paths_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scenes: Path
) -> None:
    (tmp_path / "a.jpg").write_bytes(min((scenes / "images").iterdir()).read_bytes())
    (tmp_path / ".hidden.jpg").write_bytes(b"")
    url = uploaded(tmp_path, "photos")
    fsspec.filesystem("flaky").pipe_file("/bucket/photos/./b.jpg", b"")
    assert [image.name for image in read_corpus(url).images] == ["a.jpg"]
    assert f"{url}: holds keys with '//' or '/./', which are not read" in capsys.readouterr().err


def test_paths_of_urls_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = path_of("s3://bucket/photos")
    assert str(photos / "2019" / "a.jpg") == "s3://bucket/photos/2019/a.jpg"
    assert (photos / "2019/a.jpg").relative_to(photos).as_posix() == "2019/a.jpg"
    assert not (photos / "../../other/secret").resolve().is_relative_to(photos)
    assert path_of(Path("s3://bucket/photos")) == photos  # a command line makes a Path of it
    assert path_of(tmp_path) == tmp_path
    (tmp_path / "notes:" / "a").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert str(path_of(Path("notes:/a"))) == "notes:/a"  # a folder of this machine


def test_a_range_behind_the_end_is_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").write_bytes(b"")
    source = FileSource(path_of(uploaded(tmp_path, "photos")) / "empty.jpg")
    assert source.read() == b""
    with pytest.raises(ImageError, match=r"gone\.jpg: cannot be read \(nothing is there\)"):
        FileSource(source.path.parent / "gone.jpg").read()
