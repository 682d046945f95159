import gzip
import json

import pytest
from PIL import Image

from seesay.data.readers import read_corpus
from seesay.data.readers.builder import (
    CLIPPED_BOX,
    MALFORMED_LINE,
    MISSING_IMAGE,
    OUTSIDE_BOX,
    TWO_SPLITS,
    UNREADABLE_IMAGE,
)
from seesay.data.readers.phrases import GUESSED_SIZE
from seesay.errors import SeesayError

PLAIN = "image,phrase,x1,y1,x2,y2,split\n"


@pytest.fixture
def table(tmp_path, photo):
    """Reads a table of that text beside a 100 × 50 image `a.jpg`."""
    photo("a.jpg")

    def read(text, name="phrases.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return read_corpus(tmp_path, phrases=True)

    return read


def test_boxes_are_the_images_own_pixels(table, content):
    corpus = table(PLAIN + 'a.jpg,"a red, round ball",10,5,40.5,25,dev\n')
    assert content(corpus) == [("a.jpg", "val", "a red, round ball", ((10, 5, 40.5, 25),))]
    assert [image.size for image in corpus.images] == [(100, 50)]
    assert corpus.sentences[0].number is None


def test_flickr30ks_boxes_count_from_one_on_an_image_of_another_size(table, content):
    corpus = table(
        'image\tphrase\tx1\ty1\tx2\ty2\twidth\theight\na.jpg\ta "dog"\t1\t101\t250\t250\t500\t250\n', "p.tsv"
    )
    assert content(corpus)[0][2:] == ('a "dog"', ((0, 20, 50, 50),))


@pytest.mark.parametrize(("origin", "expected"), [(0, (10, 10, 20, 20)), (1, (9, 9, 20, 20))])
def test_origin_tells_from_where_to_count(table, content, origin, expected):
    corpus = table(f"image,phrase,x1,y1,x2,y2,origin\na.jpg,x,10,10,20,20,{origin}\n")
    assert content(corpus)[0][3] == (expected,)
    sized = table(f"image,phrase,x1,y1,x2,y2,origin,width,height\na.jpg,x,10,10,20,20,{origin},100,50\n")
    assert content(sized)[0][3] == (expected,)


def test_rows_of_one_phrase_are_its_boxes(table):
    head = "image,phrase,x1,y1,x2,y2,split,sentence,chain,kind\n"
    corpus = table(
        head
        + "a.jpg,two men,0,0,10,10,train,2,7,people\n"
        + "a.jpg,a hat,0,0,5,5,train,2,,clothing/other\n"
        + "a.jpg,two men,90,0,100,10,train,2,7,people\n"
        + "a.jpg,two men,90,0,100,10,train,3,7,people\n"
    )
    first, hat, again = corpus.sentences
    assert first.boxes == ((0, 0, 10, 10), (90, 0, 100, 10))
    assert first.box.tolist() == [0, 0, 100, 10]
    assert (first.number, first.chain, first.kinds) == (2, "7", ("people",))
    assert (again.number, again.chain, again.boxes) == (3, "7", ((90, 0, 100, 10),))
    assert hat.kinds == ("clothing", "other")


def test_without_chains_equal_boxes_share_one(table, photo):
    photo("b.jpg")
    rows = ["a.jpg,a man,0,0,9,9", "a.jpg,a boy,0,0,9,9", "a.jpg,a dog,0,0,9,8", "b.jpg,a man,0,0,9,9"]
    corpus = table("image,phrase,x1,y1,x2,y2\n" + "\n".join(rows))
    man, boy, dog, other = (phrase.chain for phrase in corpus.sentences)
    assert man == boy
    assert len({man, dog, other}) == 3


def test_guessed_sizes_serve_training_alone(table, photo):
    photo("b.jpg")
    head = "image,split,phrase,x1,y1,x2,y2,width,height,size\n"
    corpus = table(
        head
        + "a.jpg,train,x,1,1,9,9,100,50,guess\n"
        + "b.jpg,test,y,1,1,9,9,100,50,guess\n"
        + "b.jpg,test,z,1,1,9,9,100,50,inferred\n"
    )
    assert [p.text for p in corpus.sentences] == ["x", "z"]
    assert corpus.issues.counts == {GUESSED_SIZE: 1}


def test_json_lines_gzipped_with_images_elsewhere(tmp_path, photo, content):
    photo("photos/deep/a.png")
    rows = [{"image": "a.png", "phrase": "x", "x1": 1, "y1": 2, "x2": 3.5, "y2": 4, "split": "test"}]
    (tmp_path / "text").mkdir()
    file = tmp_path / "text" / "rows.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    for path in (file, file.parent):
        assert content(read_corpus(path, images=tmp_path / "photos", phrases=True)) == [
            ("a.png", "test", "x", ((1, 2, 3.5, 4),))
        ]


def test_the_frame_is_the_upright_image(tmp_path, photo, table):
    exif = Image.Exif()
    exif[0x0112] = 6
    photo("turned.jpg", 80, 40, exif=exif)
    corpus = table("image,phrase,x1,y1,x2,y2\nturned.jpg,x,0,0,40,80\n")
    assert [image.size for image in corpus.images] == [(40, 80)]
    assert not corpus.issues.counts.get(CLIPPED_BOX)


def test_boxes_outside_are_clipped_or_left_out(table, content):
    rows = ["in,0,0,9,9", "over,90,40,120,60", "out,200,0,220,9", "turned,20,20,10,10", "flat,5,5,5,9"]
    corpus = table("image,phrase,x1,y1,x2,y2\n" + "\n".join(f"a.jpg,{row}" for row in rows))
    assert [row[2:] for row in content(corpus)] == [
        ("in", ((0, 0, 9, 9),)),
        ("over", ((90, 40, 100, 50),)),
    ]
    assert corpus.issues.counts[CLIPPED_BOX] == 1
    assert corpus.issues.counts[OUTSIDE_BOX] == 3
    assert corpus.issues.examples[CLIPPED_BOX][0].endswith("phrases.csv:3")


def test_images_missing_or_damaged_are_dropped_with_their_phrases(table, tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff\xe0 no more")
    rows = ["a.jpg,x,0,0,9,9", "none.jpg,y,0,0,9,9", "none.jpg,z,0,0,9,9", "bad.jpg,w,0,0,9,9"]
    corpus = table("image,phrase,x1,y1,x2,y2\n" + "\n".join(rows))
    assert corpus.texts() == ["x"]
    assert corpus.issues.counts[MISSING_IMAGE] == 1
    assert corpus.issues.counts[UNREADABLE_IMAGE] == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a.jpg,x,one,0,9,9,", "x1: Input should be a valid number"),
        ("a.jpg,x,nan,0,9,9,", "x1: Field required"),
        ("a.jpg,x,-1.7e308,0,9,9,", "x1: Input should be greater than"),
        ("a.jpg,x,0,0,9,,", "y2: Field required"),
        (",x,0,0,9,9,", "image: Field required"),
        ("a.jpg,x,0,0,9", "5 columns, not 7"),
    ],
)
def test_a_malformed_row_is_counted_with_its_place(table, row, message):
    corpus = table(PLAIN + f"a.jpg,good,0,0,9,9,\n{row}\n")
    assert corpus.texts() == ["good"]
    assert corpus.issues.counts[MALFORMED_LINE] == 1
    place = corpus.issues.examples[MALFORMED_LINE][0]
    assert "phrases.csv:3: " in place
    assert message in place
    assert corpus.issues.omissions == [MALFORMED_LINE]


def test_malformed_json_lines_are_counted(table):
    rows = [
        '{"image": "a.jpg", "phrase": "x", "x1": 0, "y1": 0, "x2": 9, "y2": 9}',
        "{",
        "[]",
        '{"image": 3}',
        "",
    ]
    corpus = table("\n".join(rows), "p.jsonl")
    assert corpus.texts() == ["x"]
    assert corpus.issues.counts[MALFORMED_LINE] == 3


def test_two_splits_and_empty_phrases_are_counted(table):
    corpus = table(PLAIN + "a.jpg,x,0,0,9,9,train\na.jpg,y,0,0,9,9,test\n")
    assert corpus.issues.counts[TWO_SPLITS] == 1
    assert [image.split for image in corpus.images] == ["train"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not in a format of phrases that seesay recognises"),
        ("image,phrase,left,top,right,bottom\n", "not in a format of phrases that seesay recognises"),
        (PLAIN, r"nothing left to use\. The list is empty"),
        (PLAIN + "a.jpg,x,0,0,9,9,some\n", r"phrases.csv:2: split 'some' is unknown"),
        (PLAIN + "b.jpg,x,0,0,9,9,\n", "1 × image listed but missing.*Put the images below"),
        (PLAIN + 'a.jpg,"x,0,0,9,9,\n', "nothing left"),
    ],
)
def test_tables_that_cannot_be_used(table, text, message):
    with pytest.raises(SeesayError, match=message):
        table(text)


def test_a_named_table_says_which_columns_it_lacks(tmp_path):
    file = tmp_path / "p.csv"
    for text, message in [
        ("image,phrase,left,y1,x2,y2\n", r"p.csv:1: no column x1; it has the columns image, phrase, left"),
        ("", r"p.csv:1: no column image, .*it has no columns"),
    ]:
        file.write_text(text)
        with pytest.raises(SeesayError, match=message):
            read_corpus(file, format="phrase-table", phrases=True)


def test_a_gzip_file_cut_short(tmp_path, photo):
    photo("a.jpg")
    data = gzip.compress((PLAIN + "a.jpg,x,0,0,9,9,\n" * 2000).encode())
    file = tmp_path / "p.csv.gz"
    for cut in (data[: len(data) // 2], b"plain text"):
        file.write_bytes(cut)
        with pytest.raises(SeesayError, match="truncated or damaged gzip file"):
            read_corpus(file, format="phrase-table", phrases=True)


def test_of_two_tables_one_must_be_named(table, tmp_path):
    (tmp_path / "other.csv").write_text(PLAIN)
    with pytest.raises(SeesayError, match=r"found other.csv, phrases.csv; give the file's path"):
        table(PLAIN)
