import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from seesay.data import formats
from seesay.data.formats import IMAGE_SUFFIXES, RAW_SUFFIXES
from seesay.data.images import DecodedImage
from seesay.errors import ImageError, QueryError, SeesayError, UnavailableImageError
from seesay.search import folder_images
from seesay.search.file_store import FileStore
from seesay.search.index import Index
from seesay.search.query import Embedded, Image, Part, Query, Text, embed_image
from tests.search import unprivileged
from tests.search.colours import RGB, Colours, gallery, photo_of, picture, prepared
from tests.search.stores import STORES, place


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return gallery(tmp_path / "photos", "red.png", "blue.png", "sub/green.png", "red-blue.png")


@pytest.fixture
def matcher() -> Colours:
    return Colours()


@pytest.fixture(params=STORES)
def index(tmp_path: Path, matcher: Colours, request: pytest.FixtureRequest):
    with Index.create(place(request.param, tmp_path), matcher) as made:
        yield made


# Of files, locks and folders alone: wherever the vectors are searched, nothing else happens.
_OF_FILES = pytest.mark.parametrize("index", ["embedded"], indirect=True)


def counts(report) -> dict[str, int]:
    names = ("added", "changed", "moved", "deleted", "unchanged")
    return {name: getattr(report, name) for name in names if getattr(report, name)}


def test_a_sentence_finds_its_image(index: Index, photos: Path) -> None:
    assert counts(index.update_images(photos)) == {"added": 4}
    hits = index.search("something green", k=2)
    assert [hit.path for hit in hits] == ["sub/green.png", hits[1].path]
    assert hits[0].score == pytest.approx(1.0, abs=1e-3)
    assert (hits[0].width, hits[0].height) == (60, 40)
    both = [hit.path for hit in index.search("red and blue")]
    assert both[0] == "red-blue.png"
    assert len(both) == 4


READER = """
import sys
from seesay.errors import SeesayError
from seesay.search.index import Index
from tests.search.colours import Colours
try:
    with Index.open(sys.argv[1], Colours()) as index:
        print(len(index.search("green")), index.search("something green", k=1)[0].path)
        index.update_images(sys.argv[2])
except SeesayError as error:
    print(error)
"""


def test_queries_of_several_parts_are_weighted_sums_of_unit_vectors(index: Index, tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png", "blue.png", "red-blue.png", "green.png")
    index.update_images(photos)

    def found(query: str | Path | bytes) -> list[str | None]:
        return [hit.path for hit in index.search(query)]

    assert found("red + blue")[0] == "red-blue.png"
    assert found("red - blue")[0] == "red.png"
    assert found("red - blue")[-1] == "blue.png"
    assert found("0.1*red + 3*blue")[0] == "blue.png"
    assert found(photos / "green.png")[0] == found(picture("green"))[0] == "green.png"
    assert found(f"image:{photos / 'red.png'} + blue")[0] == "red-blue.png"
    best = index.search("red + blue")[0]
    assert best.score == pytest.approx(1, abs=1e-3)
    assert best.id not in [hit.id for hit in index.search(f"id:{best.id} + red", k=3)]
    assert len(index.search(f"id:{best.id} + red", k=3)) == 3
    assert index.search("2*red") == index.search("red")
    for wrong, told in (
        ("red - 1*red", "cancel"),
        ("id:99", "no such image"),
        ("x.jpg", "cannot be read"),
    ):
        with pytest.raises(SeesayError, match=told):
            index.search(wrong)


def test_files_of_other_kinds_are_counted(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    (photos / "sub").mkdir(parents=True)
    for name in ("a.mov", "b.svg", "sub/c.MP4", ".hidden.mov", "notes.txt"):
        (photos / name).write_bytes(b"")
    with Index.create(tmp_path / "index", Colours()) as index:
        with pytest.raises(SeesayError, match=r"no images .* 2 video files: only images are searched\."):
            index.update_images(photos)
        gallery(photos, "red.png")
        assert index.update_images(photos).not_read == {"video": 2, "SVG": 1}
        assert index.store.not_read() == {"video": 2, "SVG": 1}
        (photos / "a.mov").unlink()
        index.update_images(photos)
        assert index.store.not_read() == {"video": 1, "SVG": 1}


def test_an_index_that_another_process_creates_meanwhile_is_opened(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = Colours()
    with Index.create(tmp_path / "index", embedder) as first:
        seen = iter([False, True, True])  # the other process is faster by a moment
        monkeypatch.setattr("seesay.search.index.store_exists", lambda _: next(seen))
        with Index.open_or_create(tmp_path / "index", embedder, photos=[photos]) as second:
            with (
                first.store.sole_writer(),
                pytest.raises(SeesayError, match="another update is running; wait"),
            ):
                second.update_images(photos)
            assert second.update_images(photos).added == first.count("image") > 0


def test_photos_of_an_extra_that_is_not_installed_any_more_are_kept(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "trip").mkdir()
    shutil.copyfile(photos / "red.png", photos / "trip" / "camera.dng")  # as if this were one
    with Index.create(tmp_path / "index", Colours()) as index:
        monkeypatch.setattr(formats, "IMAGE_SUFFIXES", IMAGE_SUFFIXES | {".dng"})
        index.update_images(photos)
        before = index.count("image")
        monkeypatch.setattr(formats, "IMAGE_SUFFIXES", IMAGE_SUFFIXES - RAW_SUFFIXES)
        monkeypatch.setattr(
            folder_images, "unread_kind", lambda name: "raw" if name.endswith(".dng") else None
        )
        report = index.update_images(photos)
        assert (report.deleted, report.not_read) == (0, {"raw": 1})
        assert index.count("image") == before
        shutil.rmtree(photos / "trip")  # an empty folder may be the place of a drive
        assert index.update_images(photos).deleted == 1


class Reader(Colours):
    """Knows the names of colours only, and what is meant by one that is misspelt."""

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        return [word for sentence in sentences for word in sentence.split() if word not in RGB]

    def corrections(self, sentences: Sequence[str]) -> dict[str, str]:
        return {"bleu": "blue"} if "bleu" in self.unknown_words(sentences) else {}


def test_answers_name_unknown_words(tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", Reader()) as index:
        index.update_images(gallery(tmp_path / "photos", "red.png"))
        assert index.search("a red + xyzzy").unknown_words == ("a", "xyzzy")
        assert index.search(tmp_path / "photos" / "red.png").unknown_words == ()
        assert index.search("xyzzy").to_dict()["unknown_words"] == ["xyzzy"]


def test_misspelt_words_are_corrected_and_told(tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", Reader()) as index:
        index.update_images(gallery(tmp_path / "photos", "red.png", "blue.png"))
        answer, right = index.search("bleu"), index.search("blue")
        assert (answer.corrected_words, answer.unknown_words) == ({"bleu": "blue"}, ())
        assert list(answer) == list(right)
        assert answer.to_dict()["corrected_words"] == {"bleu": "blue"}
        assert right.corrected_words == {}
        np.testing.assert_array_equal(prepared(index, "bleu").vector, prepared(index, "blue").vector)
        quoted = index.search('red + "bleu"')
        assert (quoted.corrected_words, quoted.unknown_words) == ({}, ("bleu",))
        assert index.search(tmp_path / "photos" / "red.png").corrected_words == {}


@pytest.mark.skipif(sys.platform != "linux", reason="drops the capabilities of root")
@_OF_FILES
def test_an_index_that_nobody_can_write_is_searched(index: Index, photos: Path, tmp_path: Path) -> None:
    index.update_images(photos)
    index.close()
    folder = tmp_path / "copy"
    folder.mkdir()
    shutil.copy(tmp_path / "index" / "index.sqlite", folder)
    (folder / "index.sqlite").chmod(0o444)
    folder.chmod(0o555)
    said = unprivileged.run(READER, folder, photos)
    folder.chmod(0o755)
    found, refused = said.splitlines()
    assert found == "4 sub/green.png"
    assert "cannot be written" in refused
    assert [file.name for file in folder.iterdir()] == ["index.sqlite"]


@_OF_FILES
@pytest.mark.skipif(sys.platform != "linux", reason="drops the capabilities of root")
def test_a_reader_who_may_not_write_sees_what_a_live_writer_wrote(index: Index, photos: Path) -> None:
    index.update_images(photos)  # still in SQLite's log, beside the file
    Path(index.place).chmod(0o555)
    said = unprivileged.run(READER, Path(index.place), photos)
    Path(index.place).chmod(0o755)
    assert said.startswith("4 sub/green.png\n")


@pytest.mark.skipif(sys.platform != "linux", reason="drops the capabilities of root")
@_OF_FILES
def test_a_reader_that_could_get_wrong_answers_is_told_what_to_do(
    index: Index, photos: Path, tmp_path: Path
) -> None:
    index.update_images(photos)
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in ("index.sqlite", "index.sqlite-wal"):  # as a kill leaves them, without the shared memory
        shutil.copy(Path(index.place) / name, killed)
    index.close()
    folders = [killed]
    killed.chmod(0o555)
    if os.getuid() == 0:  # another user's folder, who could write to it at any time
        os.chown(Path(index.place), 65534, 65534)
        folders.append(Path(index.place))
    for folder in folders:
        said = unprivileged.run(READER, folder, photos)
        folder.chmod(0o755)
        assert said.count("\n") == 1
        assert "copy its folder" in said
        assert str(folder) in said
    with Index.open(killed, Colours()) as opened:
        assert opened.count("image") == 4


@_OF_FILES
def test_a_damaged_vector_is_not_an_empty_answer(index: Index, photos: Path) -> None:
    index.update_images(photos)
    for data in (np.full(64, np.nan, np.float16).tobytes(), bytes(10)):
        with sqlite3.connect(index.store.path) as connection:
            connection.execute("UPDATE vectors SET data = ? WHERE id = 2", (data,))
        connection.close()
        with Index.open(index.place, Colours()) as opened, pytest.raises(SeesayError, match="damaged"):
            opened.search("red")


@_OF_FILES
def test_a_full_disk_says_so_and_keeps_what_was_finished(index: Index, photos: Path) -> None:
    index.update_images(photos)
    pages = index.store._connection.execute("PRAGMA page_count").fetchone()[0]
    index.store._connection.execute(f"PRAGMA max_page_count = {pages}")
    for i in range(60):
        (photos / f"{'long name ' * 10}{i}.png").write_bytes(picture("red", "blue", size=(20 + i, 10)))
    with pytest.raises(SeesayError, match=r"the disk is full.*free some space"):
        index.update_images(photos)
    assert index.count("image") == 4
    index.store._connection.execute("PRAGMA max_page_count = 1000000")
    assert counts(index.update_images(photos)) == {"added": 60, "unchanged": 4}


@_OF_FILES
def test_what_a_killed_update_left_is_swept(index: Index, photos: Path) -> None:
    left = Path(index.place) / "vectors-image.f16.123.456.tmp"
    left.write_bytes(b"half")
    index.update_images(photos)
    assert not left.exists()


def test_scores_are_those_of_the_half_precision_vectors(index: Index, photos: Path, matcher: Colours) -> None:
    index.update_images(photos)
    query = matcher.embed_sentences(["red blue"])[0]
    for hit in index.search("red blue"):
        row = matcher.embed_photos([photo_of((photos / str(hit.path)).read_bytes())])[0]
        expected = np.float32(row.astype(np.float16).astype(np.float32) @ query)
        assert hit.score == pytest.approx(expected, abs=1e-6)


def test_an_update_embeds_only_what_is_new(index: Index, photos: Path, matcher: Colours) -> None:
    index.update_images(photos)
    matcher.embedded.clear()
    assert counts(index.update_images(photos)) == {"unchanged": 4}
    os.utime(photos / "red.png", (1, 1))  # touched, same content
    (photos / "blue.png").write_bytes(picture("yellow"))  # changed
    (photos / "sub/green.png").rename(photos / "lawn.png")  # moved
    (photos / "red-blue.png").unlink()  # deleted
    gallery(photos, "white.png")  # added
    shutil.copy(photos / "white.png", photos / "copy.png")  # identical
    was = {hit.path: hit.id for hit in index.search("green")}
    report = index.update_images(photos)
    assert counts(report) == {"added": 2, "changed": 1, "moved": 1, "deleted": 1, "unchanged": 1}
    assert sorted(matcher.embedded) == ["blue.png", "copy.png"]
    hits = index.search("green")
    assert hits[0].path == "lawn.png"
    assert hits[0].id == was["sub/green.png"]
    assert {hit.path for hit in hits} == {"red.png", "blue.png", "lawn.png", "white.png", "copy.png"}
    assert index.search("yellow")[0].path == "blue.png"
    assert {hit.path for hit in index.search("white", k=2)} == {"white.png", "copy.png"}
    assert counts(index.update_images(photos)) == {"unchanged": 5}


@_OF_FILES
@pytest.mark.parametrize(("seconds", "year"), [(10**10, "2262"), (-(10**10), "1677")])
def test_a_file_of_a_far_time_is_indexed_and_listed(
    index: Index, photos: Path, seconds: int, year: str
) -> None:
    os.utime(photos / "red.png", (seconds, seconds))  # 2286, 1653: more nanoseconds than SQLite holds
    if abs((photos / "red.png").stat().st_mtime_ns) < 2**63:
        pytest.skip("the file system has no such times")
    assert counts(index.update_images(photos)) == {"added": 4}
    assert counts(index.update_images(photos)) == {"unchanged": 4}
    assert year in {facts.time[:4] for facts in index.store.newest(4)}


@_OF_FILES
@pytest.mark.parametrize("was_broken", [False, True])
def test_a_photo_replaced_by_one_of_the_same_size_and_time_is_noticed(
    index: Index, photos: Path, was_broken: bool
) -> None:
    after = picture("yellow", format="BMP")  # of the same size whatever it shows
    before = bytes(len(after)) if was_broken else picture("black", format="BMP")
    (photos / "red.png").write_bytes(before)
    os.utime(photos / "red.png", (5, 5))
    index.update_images(photos)
    (photos / "red.png").write_bytes(after)
    os.utime(photos / "red.png", (5, 5))
    report = index.update_images(photos)
    assert counts(report) == {"added" if was_broken else "changed": 1, "unchanged": 3}
    assert index.search("yellow")[0].path == "red.png"


def test_swapped_files_are_not_embedded_again(index: Index, photos: Path, matcher: Colours) -> None:
    index.update_images(photos)
    matcher.embedded.clear()
    (photos / "red.png").rename(photos / "x")
    (photos / "blue.png").rename(photos / "red.png")
    (photos / "x").rename(photos / "blue.png")
    for name in ("red.png", "blue.png"):
        os.utime(photos / name, (5, 5))
    assert counts(index.update_images(photos)) == {"changed": 2, "unchanged": 2}
    assert matcher.embedded == []
    assert index.search("blue")[0].path == "red.png"


@_OF_FILES
def test_broken_images_are_listed_and_tried_again_when_they_change(
    index: Index, photos: Path, matcher: Colours
) -> None:
    (photos / "broken.jpg").write_bytes(b"no image at all")
    (photos / "empty.png").touch()
    (photos / "notes.txt").write_text("not an image, not listed")
    report = index.update_images(photos)
    assert counts(report) == {"added": 4}
    assert {path for path, _ in report.skipped} == {"broken.jpg", "empty.png"}
    assert all(reason and path not in reason for path, reason in report.skipped)
    matcher.embedded.clear()
    again = index.update_images(photos)
    assert sorted(again.skipped) == sorted(report.skipped)
    assert matcher.embedded == []
    (photos / "broken.jpg").write_bytes(picture("black"))
    assert counts(index.update_images(photos)) == {"added": 1, "unchanged": 4}
    (photos / "red.png").write_bytes(b"broken now")
    report = index.update_images(photos)
    assert counts(report) == {"deleted": 1, "unchanged": 4}
    assert {path for path, _ in report.skipped} == {"empty.png", "red.png"}


def test_a_shortage_deletes_nothing_and_is_tried_again(index: Index, photos: Path, tmp_path: Path) -> None:
    class Short(Colours):
        def embed_photos(self, photos, query=False):
            raise UnavailableImageError(f"{photos[0].name}: not enough memory to crop it now.")

    index.update_images(photos)
    (photos / "red.png").write_bytes(picture("yellow"))
    with Index.open(index.place, Short()) as short:
        report = short.update_images(photos)
    assert report.skipped == [("red.png", "not enough memory to crop it now.")]
    assert counts(report) == {"unchanged": 3}
    assert index.count("image") == 4
    assert counts(index.update_images(photos)) == {"changed": 1, "unchanged": 3}
    assert index.search("yellow", k=1)[0].path == "red.png"


WALK = """
import sys
from pathlib import Path
from seesay.search.folder_images import images_in
found = images_in(Path(sys.argv[1]))
print(sorted(found.files), sorted(found.skipped), found.is_gone("closed/blue.png"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="drops the capabilities of root")
@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_folder_without_permissions_is_listed(tmp_path: Path, mode: int) -> None:
    photos = gallery(tmp_path / "photos", "red.png", "closed/blue.png", "closed/inner/green.png")
    (photos / "closed").chmod(mode)
    said = unprivileged.run(WALK, photos, tmp_path / "index")
    (photos / "closed").chmod(0o755)
    assert said.startswith("['red.png'] [('closed")
    assert "Permission denied" in said
    assert said.endswith("False\n")


@_OF_FILES
@pytest.mark.skipif(sys.platform != "linux", reason="other systems make no such path")
def test_a_path_too_long_for_the_system_is_listed(index: Index, photos: Path) -> None:
    here = Path.cwd()
    try:
        os.chdir(photos)
        for _ in range(18):
            Path("d" * 250).mkdir()
            os.chdir("d" * 250)
        Path("e").mkdir()
        Path("red.png").write_bytes(picture("red"))
        Path("link").symlink_to("e", target_is_directory=True)
    finally:
        os.chdir(here)
    report = index.update_images(photos)
    assert counts(report) == {"added": 4}
    assert {reason for _, reason in report.skipped} == {"File name too long"}
    subprocess.run(["rm", "-rf", photos], check=True)  # shutil and pytest fail on such paths


@_OF_FILES
def test_hidden_files_links_and_loops(index: Index, photos: Path, tmp_path: Path) -> None:
    gallery(photos, ".git/white.png")
    (photos / ".hidden.png").write_bytes(picture("white"))
    outside = gallery(tmp_path / "outside", "black.png")
    (photos / "loop").symlink_to(photos, target_is_directory=True)
    (photos / "link.png").symlink_to(photos / "red.png")
    (photos / "out.png").symlink_to(outside / "black.png")
    (photos / "out").symlink_to(outside, target_is_directory=True)
    (photos / "dangling.png").symlink_to(tmp_path / "nowhere")
    report = index.update_images(photos)
    assert counts(report) == {"added": 5}
    assert {path for path, _ in report.skipped} == {"out", "out.png", "dangling.png"}


def test_an_index_inside_the_photos_does_not_index_itself(photos: Path) -> None:
    index = Index.create(photos / "index", Colours())
    (photos / "index" / "thumbnails").mkdir()
    (photos / "index" / "thumbnails" / "x.png").write_bytes(picture("black"))
    assert counts(index.update_images(photos)) == {"added": 4}
    index.close()


@_OF_FILES
@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such file names")
def test_a_name_that_is_not_utf8_is_skipped(index: Index, photos: Path) -> None:
    (Path(os.fsdecode(os.fsencode(photos) + b"/\xe9.png"))).write_bytes(picture("red"))
    report = index.update_images(photos)
    assert report.skipped == [("\\udce9.png", "its name is not valid UTF-8; rename it")]


@_OF_FILES
def test_folders_that_cannot_be_an_index_or_photos(index: Index, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="contains other files"):
        Index.create(photos, Colours())
    with pytest.raises(SeesayError, match="not a folder"):
        index.update_images(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SeesayError, match=r"no images \(.*\) in it\.$"):
        index.update_images(tmp_path / "empty")
    index.update_images(photos)
    shutil.rmtree(photos)
    photos.mkdir()
    with pytest.raises(SeesayError, match="the index is unchanged"):
        index.update_images(photos)
    assert index.count("image") == 4


@_OF_FILES
def test_a_moved_folder_is_the_same(index: Index, photos: Path, tmp_path: Path) -> None:
    index.update_images(photos)
    photos.rename(tmp_path / "elsewhere")
    assert counts(index.update_images(tmp_path / "elsewhere")) == {"unchanged": 4}
    assert [root.folder for root in index.roots()] == [tmp_path / "elsewhere"]


@_OF_FILES
def test_another_run_is_refused(index: Index, photos: Path) -> None:
    index.update_images(photos)
    for open_ in (Index.open, Index.open_or_create):
        with pytest.raises(SeesayError, match="original run"):
            open_(Path(index.place), Colours(fingerprint="2"))


@_OF_FILES
def test_a_moved_run_is_recorded(index: Index, photos: Path) -> None:
    index.update_images(photos)
    for update in (lambda opened: opened.update_images(photos), lambda opened: opened.add_sentences(["red"])):
        moved = Colours()
        moved.name = f"{index.run_name} moved"
        with Index.open(index.place, moved) as opened:
            update(opened)
            assert opened.run_name == moved.name
        with Index.open(index.place) as again:
            assert again.run_name == moved.name


def test_the_run_that_it_names_is_loaded_once_and_when_first_needed(tmp_path: Path, photos: Path) -> None:
    Index.create(tmp_path / "unknown", Colours()).close()
    with Index.open(tmp_path / "unknown") as unknown:
        assert unknown.run_name == "colours"
        assert unknown.count("image") == 0
        with pytest.raises(SeesayError, match="colours: no run there"):
            unknown.search("red")
    with Index.open_or_create(tmp_path / "shipped") as shipped:
        shipped.add_sentences(["a dog runs", "a red square"])
    with Index.open_or_create(str(tmp_path / "shipped")) as again:
        assert again.sentences_for(photos / "red.png", k=1)[0].text == "a red square"
        assert again.run is again.run
        assert again.run.name == again.run_name == "seesay-small"
    with pytest.raises(SeesayError, match="original run"):
        Index.open(tmp_path / "shipped", Colours())


def test_similar_images_and_sentences(index: Index, photos: Path) -> None:
    index.update_images(photos)
    assert index.add_sentences(["a red wall", " a  red wall ", "", "blue sky", "green grass"]) == 3
    assert index.add_sentences(["blue sky", "black night"]) == 1
    assert index.search(picture("blue", "red"), k=1)[0].path == "red-blue.png"
    hit = index.sentences_for(picture("blue"), k=1)[0]
    assert (hit.text, hit.path) == ("blue sky", None)
    assert all(hit.path for hit in index.search("blue", k=100))
    with pytest.raises(ImageError, match="the image: "):
        index.search(b"no image")
    with pytest.raises(ImageError, match=r"nowhere\.png"):
        index.search(Path("nowhere.png"))
    with pytest.raises(ImageError, match=r"no image but a sentence, put it in"):
        index.search("a dog " * 60 + "photo.jpg")
    assert counts(index.update_images(photos)) == {"unchanged": 4}
    assert index.count("sentence") == 4


def test_questions_that_are_none(index: Index) -> None:
    assert index.search("red") == []
    with pytest.raises(SeesayError, match="empty"):
        index.search("  ")
    with pytest.raises(SeesayError, match="at least one"):
        index.search("red", k=0)


def test_a_reader_sees_what_another_process_wrote(index: Index, photos: Path) -> None:
    index.update_images(photos)
    reader = Index.open(index.place, Colours())
    assert len(reader.search("white")) == 4
    gallery(photos, "white.png")
    (photos / "red.png").unlink()
    index.update_images(photos)
    paths = [hit.path for hit in reader.search("white")]
    assert paths[0] == "white.png"
    assert "red.png" not in paths
    reader.close()


def test_two_updates_at_once_are_refused(index: Index, photos: Path) -> None:
    def meanwhile(done: int, total: int) -> None:
        with pytest.raises(SeesayError, match="another update"):
            Index.open(index.place, Colours()).update_images(photos)

    index.update_images(photos, progress=meanwhile)


@_OF_FILES
def test_progress_counts_the_files_to_do(index: Index, photos: Path) -> None:
    said: list[tuple[int, int]] = []
    index.update_images(photos, progress=lambda done, total: said.append((done, total)))
    assert said == [(0, 4), (4, 4)]


UPDATE = """
import sys, time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from seesay.search import update
from seesay.search.index import Index
from tests.search import unprivileged
from tests.search.colours import Colours
update._BATCH_FILES = 5
class Slow(Colours):
    def embed_photos(self, photos, query=False):
        time.sleep(0.02)
        return super().embed_photos(photos, query)
Index.open(sys.argv[1], Slow()).update_images(sys.argv[2], lambda *at: print(at[0], flush=True))
"""


def test_a_killed_update_keeps_its_batches_and_is_continued(
    index: Index, matcher: Colours, tmp_path: Path
) -> None:
    photos = tmp_path / "many"
    photos.mkdir()
    for i in range(200):
        (photos / f"{i}.png").write_bytes(picture("red", "blue", size=(20 + i, 10)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parents[2])])}
    command = [sys.executable, "-c", UPDATE, index.place, str(photos)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    for _ in range(4):
        process.stdout.readline()
    time.sleep(0.03)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = index.count("image")
    assert 15 <= kept < 200
    assert kept % 5 == 0
    assert counts(index.update_images(photos)) == {"added": 200 - kept, "unchanged": kept}
    assert len(matcher.embedded) == 200 - kept
    assert len(index.search("red", k=500)) == 200


def test_sentences_are_a_list_of_strings(index: Index) -> None:
    for bad in ("a dog", ["a dog", 3]):
        with pytest.raises(SeesayError, match="texts"):
            index.add_sentences(bad)
    assert index.count("sentence") == 0


def test_a_closed_index_says_so(index: Index) -> None:
    index.close()
    for use in (lambda: index.search("red"), lambda: index.add_sentences(["red"])):
        with pytest.raises(SeesayError, match="this index is closed"):
            use()


def test_pages_follow_each_other_without_end(index: Index, tmp_path: Path) -> None:
    names = [f"{colour}-{other} {i}.png" for i, (colour, other) in enumerate(product(RGB, RGB))]
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in names:
        (photos / name).write_bytes(picture(*name.split()[0].split("-")))
    index.update_images(photos)
    everything = [hit.id for hit in index.search("red", 100)]
    page, pages = index.search("red", 7), []
    while pages.append(page) or page.end is not None:
        page = index.search("red", 7, after=page.end)
    assert [hit.id for page in pages for hit in page] == everything
    assert [len(page) for page in pages] == [7] * 5 + [1]

    first = index.search("red", 7)
    (photos / "red 99.png").write_bytes(picture("red", size=(70, 40)))  # comes before the second page
    index.update_images(photos)
    assert [hit.id for hit in index.search("red", 7, after=first.end)] == everything[7:14]


def test_the_page_of_an_image_of_the_index_is_without_it(index: Index, photos: Path) -> None:
    index.update_images(photos)
    own = index.search("red", 1)[0].id
    first = index.search(f"id:{own}", 2)
    rest = index.search(f"id:{own}", 10, after=first.end)
    assert own not in {hit.id for hit in [*first, *rest]}
    assert len(first) + len(rest) == index.count("image") - 1


def test_a_vector_stands_for_what_it_is_of(index: Index, photos: Path) -> None:
    index.update_images(photos)
    vector = embed_image(index.run, picture("red"))
    query = Query((Part(Embedded("mine", vector)), Part(Text("blue"), -1.0)))
    assert index.search(query) == index.search(Query((Part(Image(picture("red"))), Part(Text("blue"), -1))))


def test_a_prepared_query_has_the_answer_of_its_text(index: Index, photos: Path) -> None:
    index.update_images(photos)
    for text in ("red", "blue - red"):
        assert index.search(index.prepare(Query.parse(text))) == index.search(text)
    for text in ("id:999", "red - 1*red"):
        with pytest.raises(QueryError):
            index.prepare(Query.parse(text))


@_OF_FILES
def test_a_query_is_corrected_and_embedded_once(index: Index, photos: Path) -> None:
    class Counting(Colours):
        def __init__(self) -> None:
            super().__init__()
            self.read, self.corrected = list[str](), list[str]()

        def embed_sentences(self, sentences, query=False):
            self.read += sentences
            return super().embed_sentences(sentences, query)

        def corrections(self, sentences):
            self.corrected += sentences
            return {"rde": "red"}

    index.update_images(photos)
    counting = Counting()
    with Index.open(index.place, counting) as opened:
        answer = opened.search("rde + blue - 2*id:1")
        assert (counting.read, counting.corrected) == (["red", "blue"], ["rde", "blue"])
        assert answer.corrected_words == {"rde": "red"}
        counting.read.clear()
        ready = opened.prepare(Query.parse("red - id:1"))
        opened.search(ready)
        assert counting.read == ["red"]


def test_a_name_that_no_index_can_have_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="cannot be read"):
        Index.open(tmp_path / ("a" * 300))


@_OF_FILES
def test_thumbnails_of_deleted_photos_do_not_stay_after_a_kill(
    index: Index, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: FileStore, keys: Sequence[str]) -> None:
        raise KeyboardInterrupt

    index.update_images(photos)
    (photos / "red.png").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "drop_thumbnails", killed)
        with pytest.raises(KeyboardInterrupt):
            index.update_images(photos)
    index.update_images(photos)
    assert len([file for file in (Path(index.place) / "thumbnails").rglob("*") if file.is_file()]) == 3


class Overflowing(Colours):
    def embed_photos(self, photos: Sequence[DecodedImage], query: bool = False) -> np.ndarray:
        scale = np.array([1e6 if photo.name == "red.png" else 1 for photo in photos], np.float32)
        return super().embed_photos(photos, query) * scale[:, None]


def test_a_vector_that_does_not_fit_is_of_one_photo_alone(tmp_path: Path, photos: Path) -> None:
    with Index.create(tmp_path / "index", Overflowing()) as index:
        report = index.update_images(photos)
        assert (report.added, [path for path, _ in report.skipped]) == (3, ["red.png"])
        assert len(index.search("blue")) == 3
