"""Shards of a WebDataset: tar archives that are read in place, as if they had been unpacked."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.builder import NO_SENTENCES, OTHER_FILE, SEEDED_SPLIT, UNKNOWN_IMAGE
from seesay.data.readers.finder import PACKED, UNREAD_KIND, UNREAD_SHARD, UNREADABLE
from seesay.data.readers.shards import members_of
from seesay.errors import ImageError, SeesayError, UnavailableImageError
from tests.data.readers.conftest import jpeg

SAMPLES = {"0.jpg": jpeg("0"), "0.txt": b"a dog\n", "1.png": jpeg("1"), "1.json": b'{"caption": "a cat"}'}


def shard(path: Path, files: Mapping[str, bytes] = SAMPLES, format: int = tarfile.PAX_FORMAT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=format) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_shards_are_the_corpus_that_they_are_unpacked(tmp_path, content, format):
    long = (
        90 * "a"
        + "/"
        + ("b" if format == tarfile.USTAR_FORMAT else 90 * "\N{LATIN SMALL LETTER E WITH ACUTE}")
    )
    for name in ("x-train-0000", "sub/test-0"):
        files = {**SAMPLES, "./deep/2.jpg": jpeg(name), "./deep/2.txt": b"deep", f"{long}.jpg": jpeg("l")}
        archive = shard(tmp_path / f"packed/{name}.tar", files, format)
        folder = tmp_path / f"unpacked/{name}"
        folder.mkdir(parents=True)
        subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    packed, unpacked = (read_corpus(tmp_path / name) for name in ("packed", "unpacked"))
    assert content(packed) == content(unpacked)
    assert content(packed)["x-train-0000/1.png"] == ("train", ["a cat"])
    assert packed.issues.counts == unpacked.issues.counts
    bytes_of = {image.name: image.source.read() for image in unpacked.images}
    assert {image.name: image.source.read() for image in packed.images} == bytes_of


def test_one_shard_is_a_corpus(tmp_path, content):
    of_one = content(read_corpus(shard(tmp_path / "valid-3.tar")))
    assert of_one == {"valid-3/0.jpg": ("val", ["a dog"]), "valid-3/1.png": ("val", ["a cat"])}


def test_every_file_of_a_shard_is_read_or_counted(tmp_path):
    more = {"0.cls": b"3", "0.mp4": b"", "7.txt": b"of none", "._0.jpg": b"", "@eaDir/0.jpg": b""}
    shard(tmp_path / "train-0.tar", {**SAMPLES, **more})
    (tmp_path / "cover.jpg").write_bytes(jpeg("cover"))
    (tmp_path / "train-0.parquet").write_bytes(b"")
    (tmp_path / "train-1.tar.gz").write_bytes(b"")
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["a dog", "a cat"]
    assert dict(corpus.issues.counts) == {
        OTHER_FILE: 2,
        UNREAD_KIND: 1,
        UNKNOWN_IMAGE: 1,
        NO_SENTENCES: 1,
        SEEDED_SPLIT: 1,
        PACKED: 1,
    }


def test_an_archive_beside_images_with_texts_is_not_read(tmp_path):
    shard(tmp_path / "backup.tar")
    (tmp_path / "0.jpg").write_bytes(jpeg("0"))
    (tmp_path / "0.txt").write_text("a dog")
    (tmp_path / "photos").mkdir()
    shard(tmp_path / "photos.tar")  # which was unpacked
    shard(tmp_path / "images.tar", {"0.jpg": jpeg("0")})
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["a dog"]
    assert corpus.issues.counts[PACKED] == 2
    assert corpus.issues.examples[UNREAD_SHARD] == [str(tmp_path / "backup.tar")]
    assert UNREAD_SHARD in corpus.issues.omissions


def test_links_and_paths_out_of_the_archive_lead_nowhere(tmp_path):
    archive = shard(tmp_path / "x.tar", {**SAMPLES, "../../2.jpg": jpeg("2"), "/etc/2.txt": b"two"})
    with tarfile.open(archive, "a") as opened:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            link = tarfile.TarInfo("3.jpg")
            link.type, link.linkname = kind, "/etc/hostname"
            opened.addfile(link)
    names = [path.relative_to(tmp_path / "x").as_posix() for path, part in members_of(archive) if part]
    assert names == [*SAMPLES, "2.jpg", "etc/2.txt"]
    assert read_corpus(tmp_path).issues.counts[UNREADABLE] == 3


@pytest.mark.parametrize("kept", [3000, 4608, 5000, -10240])
def test_what_precedes_the_damage_is_read_and_the_damage_counted(tmp_path, kept):
    archive = shard(tmp_path / "x.tar", {"0.jpg": jpeg("0"), "0.txt": b"a dog", "1.jpg": os.urandom(9999)})
    whole = archive.read_bytes()
    archive.write_bytes(whole[:kept])
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["a dog"]
    assert corpus.issues.counts[UNREADABLE] == 1
    assert "x.tar: damaged after" in corpus.issues.examples[UNREADABLE][0]


def test_a_sparse_file_is_counted(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    for name, data in SAMPLES.items():
        (files / name).write_bytes(data)
    with (files / "2.jpg").open("wb") as hole:
        hole.truncate(1 << 20)
    subprocess.run(["tar", "-cSf", tmp_path / "x.tar", "-C", files, "."], check=True)
    shutil.rmtree(files)
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["a dog", "a cat"]
    assert "2.jpg: a link, or no plain file" in corpus.issues.examples[UNREADABLE][0]


def test_of_several_files_of_one_name_the_last_is_taken_and_the_others_are_counted(tmp_path, content):
    shard(tmp_path / "x.tar")
    with tarfile.open(tmp_path / "x.tar", "a") as archive:
        for name, data in {"0.jpg": jpeg("other"), "0.txt": b"another dog"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    shard(tmp_path / "x.TAR", {"1.json": b'{"caption": "another cat"}'})
    corpus = read_corpus(tmp_path)
    assert corpus.issues.counts[OTHER_FILE] == 3
    assert corpus.images[0].source.read() == jpeg("other")
    assert content(corpus)["x/0.jpg"][1] == ["another dog"]


def test_an_archive_behind_another_in_one_file_is_said(tmp_path):
    whole = shard(tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar").write_bytes(whole + shard(tmp_path / "b.tar").read_bytes())
    (tmp_path / "b.tar").unlink()
    assert "more follows its end" in read_corpus(tmp_path).issues.examples[UNREADABLE][0]
    (tmp_path / "a.tar").write_bytes(whole + bytes(1 << 20))
    assert UNREADABLE not in read_corpus(tmp_path).issues.counts


def test_shards_behind_links_are_followed_if_they_may_be(tmp_path, content):
    """As in the cache of Hugging Face's hub."""
    (tmp_path / "snapshot").mkdir()
    shard(tmp_path / "blobs/9f86d081")
    (tmp_path / "snapshot/train-0.tar").symlink_to("../blobs/9f86d081")
    with pytest.raises(SeesayError, match=r"not followed \(--allow-outside follows it"):
        read_corpus(tmp_path / "snapshot")
    assert len(content(read_corpus(tmp_path / "snapshot", allow_outside=True))) == 2


def test_the_name_of_an_archive_and_long_attributes_are_passed_over(tmp_path):
    archive = tmp_path / "x.tar"
    member = tarfile.TarInfo("my backup")
    member.type = b"V"
    long = tarfile.TarInfo("0.jpg")
    long.size, long.pax_headers = len(jpeg("0")), {"LIBARCHIVE.xattr.com.apple.ResourceFork": 20_000 * "A"}
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as opened:
        opened.addfile(member)
        opened.addfile(long, io.BytesIO(jpeg("0")))
    assert [(path.name, part.read()) for path, part in members_of(archive)] == [("0.jpg", jpeg("0"))]


def test_a_shard_is_recognised_wherever_its_texts_are(tmp_path, content):
    images = {f"{at}.jpg": jpeg(str(at)) for at in range(1500)}
    for name in "abcde":
        shard(tmp_path / f"{name}.tar", {"cover.jpg": jpeg("cover")})
    shard(tmp_path / "z.TAR", images | {"1499.txt": b"a dog"})
    assert content(read_corpus(tmp_path))["z/1499.jpg"][1] == ["a dog"]


def test_files_without_a_suffix_are_images_by_their_own_bytes(tmp_path, content):
    archive = shard(
        tmp_path / "x.tar", {"1": jpeg("1"), "1.txt": b"a dog", "2": b"no", "pipe": b"", "a\0b": b""}
    )
    (tmp_path / "x").mkdir()
    os.mkfifo(tmp_path / "x/pipe")  # which must not be waited for
    (tmp_path / "x/2").write_bytes(jpeg("2"))
    assert content(read_corpus(archive)) == {"x/1": ("train", ["a dog"])}


def test_shards_below_images_are_named_below_them(tmp_path, content):
    (tmp_path / "texts").mkdir()
    shard(tmp_path / "images/test-0.tar")
    corpus = read_corpus(tmp_path / "texts", images=tmp_path / "images", format="pairs")
    assert content(corpus)["test-0/0.jpg"] == ("test", ["a dog"])


def test_an_archive_of_another_kind_is_named_with_the_command_that_unpacks_it(tmp_path):
    shard(tmp_path / "a.tar")
    with tarfile.open(tmp_path / "b.tar", "w:gz"):
        pass
    (told,) = read_corpus(tmp_path).issues.examples[UNREADABLE]
    assert f"unpack it: mkdir {tmp_path}/b && tar -xf {tmp_path}/b.tar" in told
    with pytest.raises(SeesayError, match="unpack it"):
        read_corpus(tmp_path / "b.tar")
    (tmp_path / "c.zip").write_bytes(b"")
    with pytest.raises(SeesayError, match=r"c\.zip: expected images beside texts"):
        read_corpus(tmp_path / "c.zip", "pairs")
    with pytest.raises(SeesayError, match="unpack it"):
        read_corpus(tmp_path, images=tmp_path / "c.zip")


def test_an_image_is_not_another_one_after_its_archive_has_changed(tmp_path):
    black, white = b"black", b"white"
    archive = shard(tmp_path / "x.tar", {"0.jpg": black, "1.jpg": white, "1.txt": b"a dog"})
    first, second = read_corpus(archive).images
    assert first.source is not None
    assert second.source is not None
    shard(archive, {"1.jpg": white, "0.jpg": black, "1.txt": b"a dog"})
    with pytest.raises(UnavailableImageError, match=r"x\.tar: 0\.jpg: the archive has changed"):
        first.source.read()
    shard(archive, {"0.jpg": black, "1.jpg": white})
    assert second.source.read() == white
    archive.write_bytes(archive.read_bytes()[: 3 * tarfile.BLOCKSIZE + 2])
    with pytest.raises(UnavailableImageError, match=r"x\.tar: 1\.jpg: "):
        second.source.read()
    archive.unlink()
    with pytest.raises(UnavailableImageError, match=r"x\.tar: 0\.jpg: "):
        first.source.read()


def test_a_file_that_is_too_large_is_named(tmp_path, monkeypatch):
    (image,) = read_corpus(shard(tmp_path / "x.tar", {"0.jpg": jpeg("0"), "0.txt": b"a dog"})).images
    monkeypatch.setattr("seesay.data.images.MAX_BYTES", 100)
    with pytest.raises(ImageError, match=r"x\.tar: 0\.jpg: at most 100 bytes"):
        image.source.read()


def test_an_archive_that_may_not_be_read_is_not_called_damaged(tmp_path):
    (tmp_path / "b.tar").mkdir()
    with pytest.raises(SeesayError, match=r"b\.tar: cannot be read \("):
        list(members_of(tmp_path / "b.tar"))


@pytest.mark.parametrize("size", [-1, -512, -10240, 1 << 40, 1 << 80])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_hostile_size_ends_in_an_error(tmp_path, size, kind):
    member = tarfile.TarInfo("a.jpg")
    member.type = kind
    header = bytearray(member.tobuf(tarfile.USTAR_FORMAT))
    number = size.to_bytes(12, "big", signed=True)
    header[124:136] = bytes([0xFF if size < 0 else 0x80]) + number[1:]
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    archive = tmp_path / "x.tar"
    archive.write_bytes(bytes(header) + bytes(20_480))
    with pytest.raises(
        SeesayError, match=r"x\.tar: no plain tar archive \(.*\); copy it again, or unpack it: mkdir"
    ):
        list(members_of(archive))


def test_attributes_of_all_files_are_not_copied_for_each(tmp_path):
    archive, headers = tmp_path / "x.tar", tarfile.TarInfo.create_pax_global_header
    common = [
        headers({f"{at:x}": "" for at in range(start, start + 1000)}) for start in range(0, 50_000, 1000)
    ]
    archive.write_bytes(b"".join(common) + 20 * tarfile.TarInfo("a.jpg").tobuf() + bytes(1024))
    with pytest.raises(SeesayError, match="more than 64 attributes"):
        list(members_of(archive))


def test_a_map_of_holes_that_is_cut_off_is_damage(tmp_path):
    with (tmp_path / "0.jpg").open("wb") as holes:
        for at in range(100):
            holes.seek(at << 20)
            holes.write(b"0")
    command = ["tar", "-cSf", tmp_path / "x.tar", "--format=gnu", "-C", tmp_path, "0.jpg"]
    subprocess.run(command, check=True)
    (tmp_path / "x.tar").write_bytes((tmp_path / "x.tar").read_bytes()[:1024])
    with pytest.raises(SeesayError, match=r"x\.tar: no plain tar archive"):
        list(members_of(tmp_path / "x.tar"))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize(("times", "size"), [(1, 1 << 22), (1, 1 << 19), (20_000, 0)])
def test_hostile_headers_take_little_time(tmp_path, kind, times, size):
    member = tarfile.TarInfo("a.jpg")
    member.type, member.size = kind, size
    (tmp_path / "x.tar").write_bytes(times * (member.tobuf(tarfile.GNU_FORMAT) + member.size * b"1"))
    with pytest.raises(
        SeesayError, match=r"x\.tar: no plain tar archive \(.*\); copy it again, or unpack it: mkdir"
    ):
        list(members_of(tmp_path / "x.tar"))
