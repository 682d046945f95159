import json

import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.builder import (
    MISSING_IMAGE,
    NO_SENTENCES,
    REPEATED_IMAGE,
    REPEATED_ROW,
    UNKNOWN_IMAGE,
)
from seesay.errors import SeesayError


def write(folder, name, images, annotations):
    file = folder / "annotations" / name
    file.parent.mkdir(exist_ok=True)
    document = {
        "images": [{"id": key, "file_name": image} for key, image in images],
        "annotations": [{"id": key, "image_id": image, "caption": text} for key, image, text in annotations],
    }
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize("year", ["2014", "2017"])
def test_both_layouts(tmp_path, photos, content, year):
    photos(f"train{year}/1.jpg", f"val{year}/2.jpg", f"val{year}/3.jpg")
    write(tmp_path, f"captions_train{year}.json", [(1, "1.jpg")], [(1, 1, "one"), (2, 1, "uno\n")])
    write(
        tmp_path, f"captions_val{year}.json", [(3, "3.jpg"), (2, "2.jpg")], [(1, 2, "two"), (4, 3, "three")]
    )
    corpus = read_corpus(tmp_path)
    assert corpus.name == "coco"  # after which its recipes and published rows are named
    assert content(corpus) == {
        "1.jpg": ("train", ["one", "uno"]),
        "3.jpg": ("val", ["three"]),
        "2.jpg": ("val", ["two"]),
    }


def test_sentences_of_an_image_missing_from_its_folder_are_not_those_of_another(tmp_path, content, photos):
    photos("train/1.jpg", "train/2.jpg", "val/2.jpg")
    for split in ("train", "val"):
        listed = [(1, "1.jpg"), (2, "2.jpg")]
        write(tmp_path, f"captions_{split}.json", listed, [(1, 1, f"{split} 1"), (2, 2, f"{split} 2")])
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {
        "1.jpg": ("train", ["train 1"]),
        "2.jpg": ("train", ["train 2"]),
        "val/2.jpg": ("val", ["val 2"]),
    }
    assert corpus.issues.examples[MISSING_IMAGE][0].endswith("val/1.jpg")


def test_images_of_one_name_in_the_folders_of_two_splits(tmp_path, photos, content):
    photos("train/1.jpg", "val/1.jpg", "val/2.jpg")
    write(tmp_path, "captions_train.json", [(1, "1.jpg")], [(1, 1, "one")])
    write(tmp_path, "captions_val.json", [(1, "1.jpg"), (2, "2.jpg")], [(1, 1, "uno"), (2, 2, "two")])
    corpus = read_corpus(tmp_path)
    assert corpus.name == tmp_path.name
    assert content(corpus) == {
        "1.jpg": ("train", ["one"]),
        "val/1.jpg": ("val", ["uno"]),
        "2.jpg": ("val", ["two"]),
    }
    assert REPEATED_IMAGE not in corpus.issues.counts


def test_one_file_finds_the_images_two_folders_up(tmp_path, photos, content):
    photos("val2017/1.jpg")
    file = write(tmp_path, "captions_val2017.json", [(1, "1.jpg")], [(1, 1, "one")])
    assert content(read_corpus(file)) == {"1.jpg": ("val", ["one"])}


def test_a_file_without_a_split_in_its_name_is_split(tmp_path, photos):
    photos(*(f"images/{i}.jpg" for i in range(20)))
    write(
        tmp_path, "captions_mine.json", [(i, f"{i}.jpg") for i in range(20)], [(i, i, "x") for i in range(20)]
    )
    corpus = read_corpus(tmp_path)
    assert [len(corpus.split(s).images) for s in ("train", "val", "test")] == [16, 2, 2]


def test_years_are_not_mixed(tmp_path, photos):
    photos("train2014/1.jpg")
    for year in ("2014", "2017"):
        file = write(tmp_path, f"captions_train{year}.json", [(1, "1.jpg")], [(1, 1, "one")])
    with pytest.raises(SeesayError, match="2014 and 2017"):
        read_corpus(tmp_path)
    assert len(read_corpus(file).images) == 1


def test_issues(tmp_path, photos, content):
    photos("train2014/1.jpg", "train2014/3.jpg")
    images = [(1, "1.jpg"), (2, "gone.jpg"), (1, "1.jpg"), (3, "3.jpg")]
    annotations = [
        (1, 1, "one"),
        (1, 1, "one"),
        (2, 2, "of a missing image"),
        (3, 9, "of none"),
        (4, 1, "one"),
    ]
    write(tmp_path, "captions_train2014.json", images, annotations)
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {"1.jpg": ("train", ["one", "one"]), "3.jpg": ("train", [])}
    kinds = (MISSING_IMAGE, REPEATED_IMAGE, REPEATED_ROW, UNKNOWN_IMAGE, NO_SENTENCES)
    assert [corpus.issues.counts[kind] for kind in kinds] == [1] * 5
    assert "annotations[3] image_id 9" in corpus.issues.examples[UNKNOWN_IMAGE][0]


def test_malformed(tmp_path, photos):
    photos("train2014/1.jpg")
    file = write(tmp_path, "captions_train2014.json", [(None, "1.jpg")], [])
    with pytest.raises(SeesayError, match=r"images\[0\]: id: Input should be a valid string"):
        read_corpus(tmp_path)
    file.write_text('{"images": []}')
    with pytest.raises(SeesayError, match="annotations: Field required"):
        read_corpus(tmp_path)
