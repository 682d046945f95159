import numpy as np
import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.builder import ARRAY, NO_SPLIT_LISTED, OTHER_FILE, TWO_SPLITS
from seesay.data.readers.phrases import BAD_ANNOTATION, NO_BOX, NOT_VISUAL
from seesay.errors import SeesayError

XML = """<annotation><filename>{id}.jpg</filename>
<size><width>200</width><height>100</height><depth>3</depth></size>
<object><name>1</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>20</xmax><ymax>20</ymax></bndbox></object>
<object><name>1</name><name>2</name>
<bndbox><xmin>181</xmin><ymin>1</ymin><xmax>200</xmax><ymax>100</ymax></bndbox></object>
<object><name>3</name><scene>1</scene><nobndbox>0</nobndbox></object>
<object><name>4</name><scene>0</scene><nobndbox>1</nobndbox></object></annotation>"""
BOX = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>20</xmax><ymax>20</ymax></bndbox>"
SENTENCES = """[/EN#1/people Two men] hold [/EN#2/bodyparts/other a hand] in [/EN#3/scene a park] .
[/EN#1/people The men] look at [/EN#0/notvisual each other] and [/EN#4/other the sky] .
"""


@pytest.fixture
def entities(tmp_path, photo):
    """Writes one image's annotation and sentences, and reads the folder."""

    def write(name="100", xml=XML, sentences=SENTENCES):
        for folder in ("Annotations", "Sentences"):
            (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / "Annotations" / f"{name}.xml").write_text(xml.format(id=name), encoding="utf-8")
        (tmp_path / "Sentences" / f"{name}.txt").write_text(sentences, encoding="utf-8")
        photo(f"images/{name}.jpg")

    return write


def test_boxes_chains_kinds_and_sentences(entities, tmp_path):
    entities()
    corpus = read_corpus(tmp_path, phrases=True)
    assert corpus.name == "flickr30k-entities"
    men, hand, again = corpus.sentences
    # 1-based inclusive pixels of 200 × 100, on an image at hand of 100 × 50.
    assert men.boxes == ((0, 0, 10, 10), (90, 0, 100, 50))
    assert men.box.tolist() == [0, 0, 100, 50]
    assert (men.text, men.chain, men.kinds, men.number) == ("Two men", "1", ("people",), 0)
    assert (hand.boxes, hand.kinds) == (((90, 0, 100, 50),), ("bodyparts", "other"))
    assert (again.text, again.chain, again.number) == ("The men", "1", 1)
    assert corpus.issues.counts[NOT_VISUAL] == 1
    assert corpus.issues.counts[NO_BOX] == 2
    assert corpus.issues.examples[NO_BOX][1].endswith("100.txt:2 the sky")


def test_images_with_features_of_their_boxes_need_no_files(entities, tmp_path):
    """The sizes are those of the annotations."""
    for name in ("100", "200"):
        entities(name)
        (tmp_path / "images" / f"{name}.jpg").unlink()
    np.save(tmp_path / "frcnn.npy", np.ones((1, 3, 4), np.float32))
    np.save(tmp_path / "frcnn_boxes.npy", np.ones((1, 3, 4), np.float32))
    (tmp_path / "frcnn_ids.txt").write_text("100\n")
    corpus = read_corpus(tmp_path, phrases=True)
    assert {image.name: (image.source, image.size) for image in corpus.images} == {
        "100.jpg": (None, (200, 100)),
        "200.jpg": (None, (200, 100)),
    }
    assert corpus.sentences[0].boxes == ((0, 0, 20, 20), (180, 0, 200, 100))
    assert corpus.issues.counts[ARRAY] == 3
    assert OTHER_FILE not in corpus.issues.counts
    (tmp_path / "frcnn_boxes.npy").unlink()  # features of whole images
    with pytest.raises(SeesayError, match="2 × image listed but missing"):
        read_corpus(tmp_path, phrases=True)


def test_lists_give_the_splits(entities, tmp_path):
    for name in ("100", "200", "300"):
        entities(name)
    (tmp_path / "train.txt").write_text("100\n")
    (tmp_path / "test.txt").write_text("200.jpg\n100\n")
    corpus = read_corpus(tmp_path, phrases=True)
    assert {image.name: image.split for image in corpus.images} == {"100.jpg": "train", "200.jpg": "test"}
    assert corpus.issues.counts[NO_SPLIT_LISTED] == corpus.issues.counts[TWO_SPLITS] == 1


@pytest.mark.parametrize(
    "xml",
    [
        XML[:300],
        "",
        XML.replace("<width>200</width>", ""),
        XML.replace("<width>200</width>", "<width>0</width>"),
        XML.replace("<width>200</width>", "<width>wide</width>"),
        XML.replace("<xmin>1</xmin>", ""),
        XML.replace("<xmin>1</xmin>", "<xmin>nan</xmin>"),
        XML.replace("<xmin>1</xmin>", "<xmin>1e308</xmin>"),
        '<!DOCTYPE annotation [<!ENTITY a "b">]>' + XML,
        '<?xml version="1.0" encoding="foo"?>' + XML,
        XML.replace("<name>1</name>", "<name>1</name>" * 200, 1).replace(BOX, BOX * 60, 1),
    ],
)
def test_a_bad_annotation_costs_its_image_alone(entities, tmp_path, xml):
    entities("100", xml)
    entities("200")
    corpus = read_corpus(tmp_path, phrases=True)
    assert [image.name for image in corpus.images] == ["200.jpg"]
    assert corpus.issues.counts[BAD_ANNOTATION] == 1
    assert "100.xml" in corpus.issues.examples[BAD_ANNOTATION][0]


def test_entities_that_unfold_without_end_are_refused(entities, tmp_path):
    layers = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 9))
    entities("100", f'<!DOCTYPE annotation [<!ENTITY e0 "ha">{layers}]><annotation>&e8;</annotation>')
    entities("200")
    place = read_corpus(tmp_path, phrases=True).issues.examples[BAD_ANNOTATION][0]
    assert "a document type declaration" in place


def test_no_annotation_at_all(entities, tmp_path):
    entities()
    (tmp_path / "Annotations" / "100.xml").unlink()
    with pytest.raises(SeesayError, match="annotation missing"):
        read_corpus(tmp_path, phrases=True)
    with pytest.raises(SeesayError, match=r"no Annotations/\*.xml and Sentences"):
        read_corpus(tmp_path / "images", format="flickr30k-entities", phrases=True)
