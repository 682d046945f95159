import io
import os
import pickle
import tarfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from seesay.data.sources import MAX_BYTES, FileSource, TarMember, tar_members
from seesay.errors import ImageError, SeesayError


def write_tar(path, members, fmt=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=fmt) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.pax_headers = {"comment": "x" * 600} if fmt == tarfile.PAX_FORMAT else {}
            tar.addfile(info, io.BytesIO(data))
    return path


def test_file_source_reads_the_file(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"pixels")
    assert FileSource(tmp_path / "a.jpg").read() == b"pixels"


def test_missing_file_is_an_image_error_that_names_it(tmp_path):
    with pytest.raises(ImageError, match=r"gone\.jpg"):
        FileSource(tmp_path / "gone.jpg").read()


def test_a_file_too_large_for_an_image_is_not_read(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"")
    os.truncate(path, MAX_BYTES + 1)  # sparse
    for source in (FileSource(path), TarMember(path, 0, MAX_BYTES + 1)):
        with pytest.raises(ImageError, match=f"at most {MAX_BYTES}"):
            source.read()


def test_the_first_bytes_can_be_read_alone(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"pixels")
    assert FileSource(path).read(3) == TarMember(path, 0, 6).read(3) == b"pix"


@pytest.mark.parametrize("fmt", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_members_are_read_by_offset_from_any_thread(tmp_path, fmt):
    wanted = {f"images/{i}.jpg": bytes([i]) * (i * 37) for i in range(60)}
    members = tar_members(write_tar(tmp_path / "a.tar", wanted.items(), fmt))
    members = pickle.loads(pickle.dumps(members))  # noqa: S301
    with ThreadPoolExecutor(8) as pool:
        read = dict(zip(members, pool.map(lambda member: member.read(), members.values()), strict=True))
    assert read == wanted


def test_junk_is_left_out_and_leading_dots_are_dropped(tmp_path):
    junk = ["._a.jpg", "images/.DS_Store", "__MACOSX/a.jpg", "PaxHeaders.1/a.jpg"]
    tar = write_tar(
        tmp_path / "a.tar", [("./images/a.jpg", b"a"), ("/b.jpg", b"b"), *((n, b"") for n in junk)]
    )
    assert set(tar_members(tar)) == {"images/a.jpg", "b.jpg"}


def test_the_last_member_of_a_name_counts_and_hard_links_are_followed(tmp_path):
    tar = write_tar(tmp_path / "a.tar", [("a.jpg", b"old"), ("a.jpg", b"new")])
    with tarfile.open(tar, "a") as out:
        for name, kind, target in [
            ("b.jpg", tarfile.LNKTYPE, "a.jpg"),
            ("c.jpg", tarfile.SYMTYPE, "/etc/passwd"),
        ]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            out.addfile(info)
    members = tar_members(tar)
    assert members["a.jpg"].read() == members["b.jpg"].read() == b"new"
    assert "c.jpg" not in members


def test_limit_reads_only_the_first_headers(tmp_path):
    tar = write_tar(tmp_path / "a.tar", [(f"{i}.jpg", b"x") for i in range(9)])
    assert list(tar_members(tar, limit=3)) == ["0.jpg", "1.jpg", "2.jpg"]


def test_compressed_truncated_and_foreign_tars_are_refused(tmp_path):
    whole = write_tar(tmp_path / "a.tar", [("a.jpg", b"x" * 5000)]).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:2500])
    with tarfile.open(tmp_path / "z.tar", "w:gz") as tar:
        tar.add(tmp_path / "a.tar", "a.jpg")
    (tmp_path / "not.tar").write_bytes(b"nothing like it" * 100)
    for name in ("cut.tar", "z.tar", "not.tar", "gone.tar"):
        with pytest.raises(SeesayError, match=name):
            tar_members(tmp_path / name)


def test_a_tar_that_shrank_after_indexing_is_an_image_error(tmp_path):
    tar = write_tar(tmp_path / "a.tar", [("a.jpg", b"x" * 5000)])
    member = tar_members(tar)["a.jpg"]
    tar.write_bytes(tar.read_bytes()[:2500])
    with pytest.raises(ImageError, match="of 5000 bytes"):
        member.read()
