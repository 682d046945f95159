import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from seesay.data.images import DecodedImage, EncodedImage
from seesay.errors import ImageError
from seesay.search import Index
from seesay.search.photo import THUMBNAIL_HEIGHT, thumbnail_of
from seesay.search.tables import Writer
from tests.search.colours import Colours, gallery, photo_of, picture


def test_large_images_shrink_and_small_ones_stay() -> None:
    assert Image.open(io.BytesIO(thumbnail_of(photo_of(picture("red", size=(2000, 1000)))))).size == (
        2 * THUMBNAIL_HEIGHT,
        THUMBNAIL_HEIGHT,
    )
    assert (
        Image.open(io.BytesIO(thumbnail_of(photo_of(picture("red", size=(9000, 500)))))).width
        == 4 * THUMBNAIL_HEIGHT
    )
    assert Image.open(io.BytesIO(thumbnail_of(photo_of(picture("red", size=(60, 40)))))).size == (60, 40)


def test_made_once_and_dropped(tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        (item,) = index.store.photos().values()
        index.store.drop_thumbnails([item.key, "never there"])
        assert not thumbnails_in(tmp_path / "index")
        made = index.thumbnail(item)
        (photos / "red.png").unlink()
        assert index.thumbnail(item) == made
        index.store.drop_thumbnails([item.key])
        with pytest.raises(OSError):
            index.thumbnail(item)
        assert not thumbnails_in(tmp_path / "index")


def test_a_file_that_changed_is_not_kept_under_the_old_content(tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png", "sub/red.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        first, second = sorted(index.store.photos().values(), key=lambda photo: photo.path)
        assert first.key == second.key
        index.store.drop_thumbnails([first.key])
        (photos / first.path).write_bytes(picture("blue"))
        assert index.thumbnail(first) == thumbnail_of(photo_of(picture("blue")))
        assert index.thumbnail(second) == thumbnail_of(photo_of(picture("red")))


class Few(Colours):
    """Needs few pixels, and gives no embedding of a black photo."""

    side = 64

    def embed_photos(self, photos: Sequence[DecodedImage], query: bool = False) -> NDArray[np.float32]:
        vectors = super().embed_photos(photos, query)
        return vectors * [[photo.pixels.max() > 10] for photo in photos]


def thumbnails_in(index: Path) -> list[Path]:
    return [file for file in (index / "thumbnails").rglob("*") if file.is_file()]


def test_only_photos_in_the_index_have_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = gallery(tmp_path / "photos", "red.png", "black.png")
    with Index.create(tmp_path / "index", Few()) as index:
        with monkeypatch.context() as patch:
            patch.setattr(Writer, "put_images", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                index.update_images(photos)
        assert (index.count("image"), thumbnails_in(tmp_path / "index")) == (0, [])
        assert [path for path, _ in index.update_images(photos).skipped] == ["black.png"]
        assert len(thumbnails_in(tmp_path / "index")) == 1


def test_their_size_does_not_depend_on_what_the_embedder_needs(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    photo = tmp_path / "photos" / "a.jpg"
    photo.write_bytes(picture("red", size=(4000, 3000), format="JPEG"))
    with Index.create(tmp_path / "index", Few()) as index:
        index.update_images(tmp_path / "photos")
        [kept] = thumbnails_in(tmp_path / "index")
        assert Image.open(kept).height == THUMBNAIL_HEIGHT
        before = kept.read_bytes()
        kept.unlink()
        (item,) = index.store.photos().values()
        assert index.thumbnail(item) == before


def test_no_image(tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        (item,) = index.store.photos().values()
        index.store.drop_thumbnails([item.key])
        (photos / "red.png").write_bytes(b"nothing")
        with pytest.raises(ImageError):
            index.thumbnail(item)


@pytest.mark.parametrize("format", ["JPEG", "TIFF", "PNG", "WEBP"])
def test_sizes_are_of_the_upright_image(format: str) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    out = io.BytesIO()
    Image.new("RGB", (30, 20)).save(out, format, exif=turned)
    assert EncodedImage(out.getvalue(), "x").size == (20, 30)
    assert Image.open(io.BytesIO(thumbnail_of(photo_of(out.getvalue())))).size == (20, 30)
