import json

import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.refcoco import UNKNOWN_ANNOTATION
from seesay.errors import SeesayError

INSTANCES = {
    "images": [{"id": 1, "file_name": "a.jpg", "width": 200, "height": 100}, {"id": 2, "file_name": "b.jpg"}],
    "annotations": [
        {"id": 10, "image_id": 1, "category_id": 5, "bbox": [20, 10, 40, 30]},
        {"id": 11, "image_id": 2, "category_id": 6, "bbox": [1, 2, 3.5, 4]},
        {"id": 12, "image_id": 9, "category_id": 6, "bbox": [1, 2, 3, 4]},
    ],
    "categories": [{"id": 5, "name": "person"}],
}
REFS = [
    {"ann_id": 10, "split": "train", "sentences": [{"sent": "left man"}, {"sent": "man in red"}]},
    {"ann_id": 11, "split": "testA", "sentences": [{"sent": "the cup"}]},
]


@pytest.fixture
def refcoco(tmp_path, photo):
    """Reads a folder of those two documents."""
    photo("images/a.jpg")
    photo("images/b.jpg")

    def read(refs=REFS, instances=INSTANCES):
        (tmp_path / "refs(unc).json").write_text(json.dumps(refs))
        (tmp_path / "instances.json").write_text(json.dumps(instances))
        return read_corpus(tmp_path, phrases=True)

    return read


def test_refs_are_phrases_of_their_annotations(refcoco, content):
    corpus = refcoco()
    assert content(corpus) == [
        ("a.jpg", "train", "left man", ((10, 5, 30, 20),)),
        ("a.jpg", "train", "man in red", ((10, 5, 30, 20),)),
        ("b.jpg", "test", "the cup", ((1, 2, 4.5, 6),)),
    ]
    assert [phrase.kinds for phrase in corpus.sentences] == [("person",), ("person",), ()]
    first, second, third = (phrase.chain for phrase in corpus.sentences)
    assert first == second != third


def test_unknown_annotations_and_images_are_counted(refcoco):
    corpus = refcoco([*REFS, {"ann_id": 99, "sentences": []}, {"ann_id": 12, "sentences": []}])
    assert corpus.issues.counts[UNKNOWN_ANNOTATION] == 2


@pytest.mark.parametrize(
    ("refs", "instances", "message"),
    [
        ({}, INSTANCES, "expected a list of refs, not dict"),
        ([{}], INSTANCES, r"refs\(unc\).json: \[0\]: 'ann_id' is missing"),
        ([{"ann_id": 10}], INSTANCES, "'sentences' is missing"),
        (REFS, {"images": []}, "'annotations' is missing"),
        ([{**REFS[0], "split": "x"}], INSTANCES, "split 'x' is unknown"),
    ],
)
def test_malformed_documents_name_their_place(refcoco, refs, instances, message):
    with pytest.raises(SeesayError, match=message):
        refcoco(refs, instances)


@pytest.mark.parametrize(
    "numbers", [[1, 2, 3], [1, 2, "x", 4], [1, 2, float("nan"), 4], [1, 2, True, 4], [1, 2, 10**400, 4]]
)
def test_a_malformed_box_names_its_place(refcoco, numbers):
    instances = {**INSTANCES, "annotations": [{"id": 10, "image_id": 1, "bbox": numbers}]}
    with pytest.raises(SeesayError, match=r"\[0\]: 'bbox' is"):
        refcoco(REFS, instances)


@pytest.mark.parametrize("size", [{"width": 0, "height": 5}, {"width": "x", "height": 5}, {"width": 5}])
def test_a_malformed_size_names_its_place(refcoco, size):
    images = [{"id": 1, "file_name": "a.jpg", **size}]
    with pytest.raises(SeesayError, match=r"\[0\]: .*(width|height)"):
        refcoco(REFS[:1], {**INSTANCES, "images": images})
