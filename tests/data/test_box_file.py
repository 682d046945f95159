"""Files of boxes with a feature each, written in both layouts and read for images of a corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seesay.data.corpus import CorpusImage
from seesay.data.features import BoxFile
from seesay.encoders.regions import box_file_of, load_region_encoder
from seesay.encoders.settings import EncoderSettings
from seesay.errors import ImageError, SeesayError

SAMPLE = Path(__file__).parents[3] / "shared" / "region-features" / "bottom_up_10.npz"
DOG, CAT = (CorpusImage(name, "train", size=(100, 50)) for name in ("dog.jpg", "cat.jpg"))
BOXES = np.array(
    [[[0, 0, 50, 50], [10, 5, 20, 25], [0, 0, 100, 50]], [[5, 5, 15, 15], [0] * 4, [0] * 4]], float
)
FEATURES = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)


def write(folder: Path, layout: str, boxes: np.ndarray = BOXES, **further: np.ndarray) -> Path:
    path = folder / f"frcnn.{layout}"
    if layout == "npz":
        np.savez(path, features=FEATURES, img_id=np.array(["dog", "cat"]), boxes=boxes, **further)
        return path
    np.save(path, FEATURES)
    (folder / "frcnn_ids.txt").write_text("dog\ncat\n")
    for name, array in {"boxes": boxes, **further}.items():
        np.save(folder / f"frcnn_{name}.npy", array)
    return path


@pytest.mark.parametrize("layout", ["npz", "npy"])
def test_an_image_has_its_boxes_and_their_features(tmp_path: Path, layout: str) -> None:
    file = BoxFile(write(tmp_path, layout))
    boxes, features, proposals = file.regions(DOG.name, DOG.size, 200, further=False)
    np.testing.assert_array_equal(boxes, BOXES[0])
    np.testing.assert_array_equal(features, FEATURES[0])
    assert proposals == 3
    boxes, features, proposals = file.regions(CAT.name, CAT.size, 200, further=False)
    np.testing.assert_array_equal(boxes, BOXES[1, :1])
    np.testing.assert_array_equal(features, FEATURES[1, :1])
    assert (proposals, file.dim) == (1, 4)


def test_boxes_after_the_proposals_are_for_training(tmp_path: Path) -> None:
    file = BoxFile(write(tmp_path, "npy"))
    boxes, _, proposals = file.regions(DOG.name, DOG.size, 2, further=False)
    assert (len(boxes), proposals) == (2, 2)
    boxes, features, proposals = file.regions(DOG.name, DOG.size, 2, further=True)
    assert (len(boxes), len(features), proposals) == (3, 3, 2)


def test_true_boxes_may_follow_a_gap(tmp_path: Path) -> None:
    gap = BOXES.copy()
    gap[0, 1] = 0
    boxes, features, proposals = BoxFile(write(tmp_path, "npy", gap)).regions(
        DOG.name, DOG.size, 2, further=True
    )
    np.testing.assert_array_equal(boxes, BOXES[0, [0, 2]])
    np.testing.assert_array_equal(features, FEATURES[0, [0, 2]])
    assert proposals == 1


@pytest.mark.parametrize("layout", ["npz", "npy"])
def test_boxes_drawn_on_another_size_are_scaled(tmp_path: Path, layout: str) -> None:
    path = write(tmp_path, layout, 2 * BOXES, img_wh=np.array([[200, 100], [200, 100]]))
    np.testing.assert_allclose(BoxFile(path).regions(DOG.name, DOG.size, 200, further=False)[0], BOXES[0])


@pytest.mark.parametrize("layout", ["npz", "npy"])
def test_a_box_outside_its_image_is_named(tmp_path: Path, layout: str) -> None:
    with pytest.raises(SeesayError, match=r"image dog\.jpg lies outside its 100×50 pixels.*'img_wh'"):
        BoxFile(write(tmp_path, layout, 2 * BOXES)).regions(DOG.name, DOG.size, 200, further=False)


def test_an_image_without_boxes_is_named(tmp_path: Path) -> None:
    none = BOXES.copy()
    none[1] = 0
    file = BoxFile(write(tmp_path, "npz", none))
    with pytest.raises(ImageError, match=r"cat\.jpg: no boxes in .*frcnn\.npz"):
        file.regions(CAT.name, CAT.size, 200, further=True)
    with pytest.raises(ImageError, match=r"bird\.jpg: not in .*frcnn\.npz"):
        file.regions("bird.jpg", (0, 0), 200, further=True)


@pytest.mark.parametrize("layout", ["npz", "npy"])
def test_boxes_that_do_not_belong_to_the_features(tmp_path: Path, layout: str) -> None:
    with pytest.raises(SeesayError, match=r"boxes of shape \(2, 2, 4\) for features of shape \(2, 3, 4\)"):
        BoxFile(write(tmp_path, layout, BOXES[:, :2]))
    with pytest.raises(SeesayError, match=r"img_wh has shape \(1, 2, 1\)"):
        BoxFile(write(tmp_path, layout, img_wh=np.ones((1, 2, 1))))


def test_features_without_boxes(tmp_path: Path) -> None:
    write(tmp_path, "npy").with_name("frcnn_boxes.npy").unlink()
    with pytest.raises(SeesayError, match=r"no boxes; add .*frcnn_boxes\.npy"):
        BoxFile(tmp_path / "frcnn.npy")
    np.save(tmp_path / "frcnn.npy", FEATURES[:, 0])
    with pytest.raises(SeesayError, match="one feature per image"):
        BoxFile(tmp_path / "frcnn.npy")


def test_a_recipe_names_a_file_in_the_folder_of_the_corpus(tmp_path: Path) -> None:
    write(tmp_path, "npz")
    (tmp_path / "phrases.tsv").touch()
    named = EncoderSettings.parse({"kind": "precomputed", "file": "frcnn.npz"})
    for corpus in (tmp_path, tmp_path / "phrases.tsv"):
        assert box_file_of(named, corpus).path == tmp_path / "frcnn.npz"
    assert box_file_of(EncoderSettings.parse("roi-pooling"), tmp_path) is None
    with pytest.raises(SeesayError, match="name the file"):
        box_file_of(EncoderSettings.parse("precomputed"), tmp_path)
    with pytest.raises(SeesayError, match=r"frcnn\.npz; without their encoder it cannot read other images"):
        load_region_encoder(named)


@pytest.mark.skipif(not SAMPLE.exists(), reason="needs ../shared/region-features")
def test_a_real_sample_of_bottom_up_features() -> None:
    image = CorpusImage("COCO_train2014_000000132417.jpg", "test", size=(500, 333))
    boxes, features, proposals = BoxFile(SAMPLE).regions(image.name, image.size, 200, further=False)
    assert (boxes.shape, features.shape, proposals) == ((36, 4), (36, 2048), 36)
