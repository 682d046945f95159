import gzip
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.data.corpus import seeded_splits, split_in_name
from seesay.data.readers import read_corpus
from seesay.data.readers.builder import (
    EMPTY_SENTENCE,
    MALFORMED_LINE,
    MISSING_IMAGE,
    OTHER_FILE,
    REPEATED_SENTENCE,
    SHARED_FILE,
    TWO_SPLITS,
)
from seesay.data.readers.finder import OUTSIDE
from seesay.data.readers.table import SEVERAL_IN_ONE
from seesay.data.readers.table_files import TableFormat, without_number
from seesay.data.summary import summarise
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.runs.inputs import split_inputs
from seesay.text.vocabulary import Vocabulary, rare_word_summary
from tests.linear import check_linear


def test_csv_with_quotes_line_breaks_and_splits(tmp_path, photos, content):
    photos("images/a.jpg", "images/b.jpg")
    (tmp_path / "captions.csv").write_text(
        "split,image,caption\n"
        'train,a.jpg,"A dog, running"\ntrain,a.jpg,"He said ""hi"",\nand left"\nTest,b.jpg,B\n'
    )
    assert content(read_corpus(tmp_path)) == {
        "a.jpg": ("train", ["A dog, running", 'He said "hi", and left']),
        "b.jpg": ("test", ["B"]),
    }


@pytest.mark.parametrize(
    ("rows", "is_told"),
    [
        ('a.jpg,"an unclosed caption\nb.jpg,fine\na.jpg,"x"\n', True),
        ('a.jpg,"an unclosed caption\nb.jpg,fine\n', True),
        ('a.jpg,"an unclosed caption\nb.jpg,12" wide"\n', True),
        ('a.jpg,"an unclosed caption\nb.jpg,a pipe of 12"\n', True),
        ('a.jpg,"A dog,\nrunning, fast"\nb.jpg,B\n', False),
        ('a.jpg,"A dog,\n\nrunning, ""fast"""\n"b.jpg","B,\nC"', False),
        ('a.jpg,"A dog,\r\nrunning, fast"\r\nb.jpg,"B,\r\nC, D"', False),
    ],
)
def test_a_quotation_mark_that_is_not_closed_is_told(tmp_path, photos, rows, is_told):
    photos("a.jpg", "b.jpg")
    (tmp_path / "t.csv").write_text(f"image,caption\n{rows}", newline="")
    issues = read_corpus(tmp_path).issues
    places = [places for kind, places in issues.examples.items() if "quotation mark" in kind]
    assert bool(places) == is_told
    assert not is_told or places[0][0].endswith("t.csv:2")


@pytest.mark.parametrize(
    "head", ["caption,caption,note", "caption,caption,caption2", "caption2,caption,caption"]
)
def test_columns_of_one_name_are_numbered(tmp_path, photos, content, head):
    photos("a.jpg")
    (tmp_path / "t.csv").write_text(f"image,{head}\na.jpg,one,two,three\n")
    assert set(content(read_corpus(tmp_path))["a.jpg"][1]) == {"one", "two", "three"} - (
        {"three"} if "note" in head else set()
    )


@pytest.mark.parametrize("head", ["name1,name2", "name,name"])
def test_names_are_sentences_where_there_are_no_others(tmp_path, photos, content, head):
    photos("a.jpg")
    (tmp_path / "t.csv").write_text(f"image,{head}\na.jpg,piano,grand piano\n")
    assert content(read_corpus(tmp_path))["a.jpg"][1] == ["piano", "grand piano"]


@pytest.mark.parametrize("text", ["5", "null", "{}"])
def test_json_that_is_no_list_is_refused_as_a_table(tmp_path, photos, text):
    photos("a.jpg")
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(SeesayError, match=r"t\.json"):
        read_corpus(tmp_path / "t.json", "table")


def test_a_table_is_read_and_not_its_export_beside_it(tmp_path, photos, content):
    photos("a.jpg")
    (tmp_path / "t.csv").write_text("image,caption\na.jpg,one\n")
    (tmp_path / "t.json").write_text(json.dumps([{"image": "a.jpg", "caption": "two"}]))
    assert content(read_corpus(tmp_path))["a.jpg"][1] == ["one"]


@pytest.mark.parametrize("captions", ["one", ["one", "two"]])
def test_a_json_list_of_objects(tmp_path, photos, content, captions):
    photos("images/a.jpg", "images/b.jpg")
    rows = [{"image": "a.jpg", "caption": captions, "split": "train"}, {"image": "b.jpg", "caption": "three"}]
    text = json.dumps(rows[0])  # a string is no object, whatever it says
    (tmp_path / "captions.json").write_text(json.dumps([*rows, text], indent=1))
    corpus = read_corpus(tmp_path)
    assert content(corpus)["a.jpg"] == ("train", ["one", "two"][: len(captions) if captions != "one" else 1])
    assert [sentence.text for sentence in corpus.sentences][-1] == "three"
    assert corpus.issues.counts[MALFORMED_LINE] == 1


def test_tsv_takes_quotation_marks_as_they_are(tmp_path, photos, content):
    photos("a.jpg")
    file = tmp_path / "t.tsv"
    file.write_text('image\tcaption\tsplit\na.jpg\t"Stop" says the sign\tval\na.jpg\t"unclosed\tval\n')
    assert content(read_corpus(file)) == {"a.jpg": ("val", ['"Stop" says the sign', '"unclosed'])}


def test_jsonl_with_one_or_several_captions(tmp_path, photos, content):
    photos("a.jpg", "b.jpg")
    rows = [
        {"image": "a.jpg", "caption": "A", "split": "train"},
        {"image": "b.jpg", "captions": ["B", "b"], "split": "test"},
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    assert content(read_corpus(tmp_path)) == {"a.jpg": ("train", ["A"]), "b.jpg": ("test", ["B", "b"])}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("results.csv", "image_name| comment_number| comment\na.jpg| 0| A dog .\n"),
        ("captions.txt", "image,caption\na.jpg,A dog .\n"),
        ("metadata.csv", "file_name,text\na.jpg,A dog .\n"),
        ("x.csv", "\ufeffimage,caption\r\na.jpg,A dog .\r\n"),
        ("x.csv", "image;caption\na.jpg;A dog .\n"),
        ("x.csv", "Bild;Beschreibung\na.jpg;A dog .\n"),
        ("x.csv", "filename,description\na.jpg,A dog .\n"),
        ("x.txt", "image_path|text\nA.JPG|A dog .\n"),
        ("x.tsv", "sentence\tphoto\nA dog .\ta\n"),
    ],
)
def test_tables_that_people_have(tmp_path, photos, name, text):
    photos("flickr30k_images/a.jpg")
    (tmp_path / name).write_bytes(text.encode())
    corpus = read_corpus(tmp_path)
    assert [image.source.path.name for image in corpus.images] == ["a.jpg"]
    assert corpus.texts() == ["A dog ."]


def test_an_image_without_a_name_is_a_malformed_row(tmp_path, photos, content):
    photos("a.jpg", "b.jpg")
    rows = [{"image": "a.jpg", "name": "owl"}, {"image": "b.jpg", "name": 3}]
    (tmp_path / "names.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = read_corpus(tmp_path)
    assert [image.name for image in corpus.images] == ["a.jpg"]
    assert corpus.issues.counts[MALFORMED_LINE] == 1


def test_several_columns_of_captions(tmp_path, photos, content):
    photos("a.jpg", "b.jpg")
    (tmp_path / "x.csv").write_text("image,caption1,caption2,Caption 3\na.jpg,A,AA,AAA\nb.jpg,B,,\n")
    assert [said for _, said in content(read_corpus(tmp_path)).values()] == [["A", "AA", "AAA"], ["B"]]


@pytest.mark.parametrize("header", ["image,caption", "caption,image"])
def test_commas_without_quotes_belong_to_the_caption(tmp_path, photos, header):
    photos("a.jpg")
    row = ("a.jpg,A dog, running, fast", "A dog, running, fast,a.jpg")[header == "caption,image"]
    (tmp_path / "x.csv").write_text(f"{header}\n{row}\n")
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["A dog, running, fast"]
    assert not corpus.issues.omissions


def test_several_captions_in_one_cell_are_reported(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "x.csv").write_text("image,caption\na.jpg,A dog|A brown dog\n")
    assert read_corpus(tmp_path).issues.counts[SEVERAL_IN_ONE] == 1


def test_columns_of_any_name(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "x.csv").write_text("Fichier,Phrase 1,Phrase 2\na.jpg,Un chien,Le chien\n")
    corpus = read_corpus(tmp_path, image_column="Fichier", caption_column="phrase")
    assert corpus.texts() == ["Un chien", "Le chien"]
    with pytest.raises(SeesayError, match="no column bild; it has the columns fichier"):
        read_corpus(tmp_path, image_column="Bild", caption_column="phrase")


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_a_key_may_be_absent_from_the_first_objects(tmp_path, photos, content, name):
    photos("a.jpg", "b.jpg")
    rows = [{"image": "a.jpg"}, {"image": "b.jpg", "caption": "x", "split": "test"}]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / name).write_text(lines if name == "x.jsonl" else json.dumps(rows))
    assert content(read_corpus(tmp_path))["b.jpg"] == ("test", ["x"])


def test_keys_of_json_lines_in_any_case(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "x.jsonl").write_text('{"fileName": "a.jpg", "Caption": "A dog"}\n')
    assert read_corpus(tmp_path, image_column="fileName").texts() == ["A dog"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("caption", "caption"),
        ("caption12", "caption"),
        ("cap_1", "cap"),
        ("cap 1", "cap"),
        ("cap__1", "cap_"),
    ],
)
def test_what_numbered_columns_share(column, expected):
    assert without_number(column) == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "x.csv",
            "Fichier,Phrase\na.jpg,Un chien\n",
            r"fichier, phrase\. .*--image-column and --cap",
        ),
        ("x.csv", "", "it has no columns"),
        ("x.txt", "Fichier;Phrase\na.jpg;Un chien\n", "columns fichier, phrase"),
        (
            "x.csv",
            "a.jpg,A dog\nb.jpg,A cat\n",
            r"no header but 'a.jpg, a dog'; add a first line.*--image-column and --cap",
        ),
        ("x.ods", "PK", r"a spreadsheet, which is not read; save it as CSV or \.xlsx"),
        ("x.xlsx", "PK", r"x\.xlsx: damaged, or not an \.xlsx file"),
    ],
)
def test_a_table_beside_photos_is_never_ignored(tmp_path, photos, name, text, message):
    photos("a.jpg")
    (tmp_path / name).write_text(text)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(SeesayError, match=message):
            read_corpus(path)
    assert len(read_corpus(tmp_path, "folder").images) == 1


def test_rows_that_are_left_out_are_named(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "x.csv").write_text("image,caption,by\na.jpg,A,me\ngone.jpg,B,me\na.jpg,C\na.jpg,,\n")
    issues = read_corpus(tmp_path).issues
    why = {MISSING_IMAGE: "3 gone.jpg", MALFORMED_LINE: "4: 2 columns, not 3", EMPTY_SENTENCE: "5"}
    assert {kind: issues.examples[kind] for kind in issues.omissions} == {
        kind: [f"{tmp_path}/x.csv:{place}"] for kind, place in why.items()
    }


def test_a_table_that_expands_as_no_text_does_is_refused(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"image,caption\na.jpg," + bytes(30_000_000)))
    with pytest.raises(SeesayError, match="expands to over 100 times its size, far more"):
        read_corpus(tmp_path)


def test_utf16_from_a_spreadsheet(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "x.csv").write_bytes("image,caption\r\na.jpg,Café\r\n".encode("utf-16"))
    assert read_corpus(tmp_path).texts() == ["Café"]


def test_a_table_for_each_split(tmp_path, photos, content):
    photos("a.jpg", "b.jpg")
    (tmp_path / "train.csv").write_text("image,caption\na.jpg,A\n")
    (tmp_path / "dev.csv").write_text("image,caption\nb.jpg,B\n")
    assert content(read_corpus(tmp_path)) == {"a.jpg": ("train", ["A"]), "b.jpg": ("val", ["B"])}
    (tmp_path / "other.csv").write_text("image,caption\nb.jpg,B\n")
    with pytest.raises(SeesayError, match=r"several tables .*other\.csv"):
        read_corpus(tmp_path)


@pytest.mark.parametrize(
    ("name", "split"), [("test", "test"), ("dev", "val"), ("my-test", "train"), ("train", "train")]
)
def test_a_single_table_has_the_split_of_its_name(tmp_path, photos, content, name, split):
    photos("a.jpg")
    (tmp_path / f"{name}.csv").write_text("image,caption\na.jpg,A\n")
    assert content(read_corpus(tmp_path)) == {"a.jpg": (split, ["A"])}


def test_a_train_table_without_others_is_divided(tmp_path, photos):
    photos(*(f"{number}.jpg" for number in range(10)))
    rows = "".join(f"{number}.jpg,A\n" for number in range(10))
    (tmp_path / "train.csv").write_text(f"image,caption\n{rows}")
    assert set(read_corpus(tmp_path).splits) == {"train", "val", "test"}


def test_an_image_listed_by_two_names_is_one_and_is_listed(tmp_path, photos, content):
    photos("dogs/1.jpg")
    (tmp_path / "t.csv").write_text("image,caption,split\ncats/1.jpg,a cat,train\ndogs/1.jpg,a dog,train\n")
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {"cats/1.jpg": ("train", ["a cat", "a dog"])}
    assert corpus.issues.examples[SHARED_FILE] == [f"{tmp_path}/t.csv:3 dogs/1.jpg: the file of cats/1.jpg"]


def test_names_with_folders_absolute_paths_and_decomposed_accents(tmp_path, photos):
    photos("x/1.jpg", "y/1.jpg", "cafe\u0301.jpg")
    rows = ["y/1.jpg,a", "./x/1.jpg,b", f"{tmp_path}/y/1.jpg,c", "caf\u00e9.jpg,d", "x\\1.jpg,e"]
    (tmp_path / "t.csv").write_text("image,caption\n" + "\n".join(rows) + "\n")
    corpus = read_corpus(tmp_path)
    paths = [corpus.images[s.image].source.path.relative_to(tmp_path).as_posix() for s in corpus.sentences]
    assert paths == ["y/1.jpg", "x/1.jpg", "y/1.jpg", "cafe\u0301.jpg", "x/1.jpg"]
    assert not [kind for kind in corpus.issues.counts if "several files" in kind]


def test_absolute_paths_elsewhere_are_taken_only_if_allowed(tmp_path, photos, content):
    photos("corpus/a.jpg", "private/b.jpg", "private/c.jpg")
    private = tmp_path / "private"
    rows = ["a.jpg,A", f"{private}/b.jpg,B", f"{private}/a.jpg,C"]  # the last one lies in the corpus too
    (tmp_path / "corpus/t.csv").write_text("image,caption\n" + "\n".join(rows) + "\n")
    corpus = read_corpus(tmp_path / "corpus")
    assert all(private not in image.source.path.parents for image in corpus.images)
    assert corpus.issues.counts[OUTSIDE] == 1
    assert str(private / "b.jpg") in corpus.issues.examples[OUTSIDE][0]
    allowed = read_corpus(tmp_path / "corpus", allow_outside=True)
    assert private / "b.jpg" in [image.source.path for image in allowed.images]
    assert OUTSIDE not in allowed.issues.counts


@pytest.mark.parametrize("link", ["images", "me.jpg"])
def test_links_out_of_the_folder_are_followed_only_if_allowed(tmp_path, photos, link):
    photos("corpus/a.jpg", "private/me.jpg")
    private = tmp_path / "private"
    (tmp_path / "corpus" / link).symlink_to(private / "me.jpg" if link == "me.jpg" else private)
    (tmp_path / "corpus/again.jpg").symlink_to("a.jpg")
    (tmp_path / "corpus/t.csv").write_text("image,caption\na.jpg,A\nme.jpg,B\nagain.jpg,C\n")
    corpus = read_corpus(tmp_path / "corpus")
    assert [image.name for image in corpus.images] == ["a.jpg", "again.jpg"]
    (kind,) = [each for each in corpus.issues.counts if "a link out of the folder" in each]
    assert corpus.issues.examples[kind] == [str(tmp_path / "corpus" / link)]
    allowed = read_corpus(tmp_path / "corpus", allow_outside=True)
    assert [image.name for image in allowed.images] == ["a.jpg", "me.jpg", "again.jpg"]


def test_links_within_the_folder_are_followed_and_one_out_is_named_if_nothing_is_left(tmp_path, photos):
    photos("c/data/v1/1.png", "c/data/v2/1.png", "private/me.jpg")
    (tmp_path / "c/images").symlink_to("data/v2")
    (tmp_path / "c/t.csv").write_text(f"image,caption\nimages/1.png,A\n/{'a' * 300}.jpg,B\n")
    assert [image.source.path for image in read_corpus(tmp_path / "c").images] == [
        tmp_path / "c/data/v2/1.png"
    ]
    (tmp_path / "d").mkdir()
    (tmp_path / "d/images").symlink_to(tmp_path / "private")
    (tmp_path / "d/t.csv").write_text("image,caption\nme.jpg,A\nyou.jpg,B\n")
    with pytest.raises(
        SeesayError, match=r"nothing left to use.*--allow-outside follows it\); the first: .*d/images"
    ):
        read_corpus(tmp_path / "d")


def test_a_name_is_found_in_its_own_folder_among_many(tmp_path, photos):
    photos(*(f"images/{i}/1.jpg" for i in range(30)), "images/3/4/1.jpg")
    names = [*(f"{i}/1.jpg" for i in range(30)), "3/4/1.jpg", "other/1.jpg"]
    (tmp_path / "t.csv").write_text("image,caption\n" + "".join(f"{name},a\n" for name in names))
    found = [
        image.source.path.relative_to(tmp_path / "images").as_posix()
        for image in read_corpus(tmp_path).images
    ]
    assert found == names[:-1]  # the last is the first of the name, which is there already


def test_a_name_that_fits_two_files_is_counted(tmp_path, photos):
    photos("x/1.jpg", "y/1.jpg")
    (tmp_path / "t.csv").write_text("image,caption\n1.jpg,a\n")
    corpus = read_corpus(tmp_path)
    assert corpus.images[0].source.path == tmp_path / "x/1.jpg"
    assert any("several files" in kind for kind in corpus.issues.counts)


def test_names_cannot_climb_out_of_the_folder(tmp_path, photos):
    photos("secret.jpg", "corpus/a.jpg")
    (tmp_path / "corpus/t.csv").write_text("image,caption\n../secret.jpg,a\na.jpg,b\n")
    assert [image.name for image in read_corpus(tmp_path / "corpus").images] == ["a.jpg"]


def test_issues(tmp_path, photos, content):
    photos("a.jpg", "b.jpg")
    rows = [
        "a.jpg,A,train",
        "a.jpg,A,train",
        "a.jpg,,train",
        "only one",
        "gone.jpg,G,train",
        "gone.jpg,H,train",
    ]
    rows += ["a.jpg,A again,test", "", "b.jpg,B,val", ",nameless,val", "b.jpg,B,val,more"]
    (tmp_path / "t.csv").write_text("image,caption,split\n" + "\n".join(rows) + "\n")
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {"a.jpg": ("train", ["A", "A", "A again"]), "b.jpg": ("val", ["B"])}
    counts = corpus.issues.counts
    assert counts[REPEATED_SENTENCE] == counts[EMPTY_SENTENCE] == counts[MISSING_IMAGE] == 1
    assert counts[TWO_SPLITS] == 1
    places = [place.split(": ")[0] for place in corpus.issues.examples[MALFORMED_LINE]]
    assert places == [f"{tmp_path}/t.csv:{line}" for line in (5, 11, 12)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "image,caption\na.jpg,A plane .\na.jpg,A plane .\na.jpg,A  plane .\n"),
        ("t.jsonl", '{"image": "a.jpg", "captions": ["A plane .", "A plane .", "A plane ."]}\n'),
        ("t.tsv", "image\tcap1\tcap2\tcap3\na.jpg\tA plane .\tA plane .\tA plane .\n"),
    ],
)
def test_a_sentence_that_an_image_has_several_times_is_kept_and_counted(tmp_path, photos, name, text):
    photos("a.jpg")
    (tmp_path / name).write_text(text)
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["A plane ."] * 3
    assert corpus.issues.counts[REPEATED_SENTENCE] == 2


def test_jsonl_issues(tmp_path, photos, content):
    photos("a.jpg")
    lines = [
        '{"image": "a.jpg", "caption": "A"}',
        "{nonsense",
        "[1]",
        '{"image": "a.jpg"}',
        '{"image": [3], "caption": "x"}',
    ]
    (tmp_path / "t.jsonl").write_text("\n".join([*lines, '{"image": "a.jpg", "caption": ["B", 4]}']))
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["A"]
    places = [place.split(": ")[0] for place in corpus.issues.examples[MALFORMED_LINE]]
    assert places == [
        f"{tmp_path}/t.jsonl:{line}" for line in (2, 3, 5, 6)
    ]  # a row without a sentence is well formed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"image,caption,split\na.jpg,A,tset\n", r"t\.csv:2: split 'tset' is unknown"),
        (b"image,caption\na.jpg,caf\xc3\xa9 \xe9\n", r"t\.csv:2: byte 0xe9"),
        (
            b"look,words\na.jpg,A\n",
            r"t\.csv:1: no column image, caption; it has the columns look, words",
        ),
        (b'image,caption\na.jpg,"' + b"x" * 200_000, r"t\.csv:2: malformed table"),
        (b"image,caption\n", "nothing left"),
        (b"", "it has no columns"),
        (b"\nimage,caption\n", "it has no columns"),
    ],
)
def test_refused_tables_name_the_line(tmp_path, photos, text, message):
    photos("a.jpg")
    (tmp_path / "t.csv").write_bytes(text)
    with pytest.raises(SeesayError, match=message):
        read_corpus(tmp_path / "t.csv", "table")


def test_the_seeded_split_does_not_depend_on_the_order_of_rows(tmp_path, photos, content):
    names = [f"{i}.jpg" for i in range(40)]
    photos(*names)
    splits = []
    for seed in range(3):
        rows = [f"{name},sentence {i}" for name in names for i in range(2)]
        random.Random(seed).shuffle(rows)
        (tmp_path / "t.csv").write_text("image,caption\n" + "\n".join(rows))
        splits.append({name: split for name, (split, _) in content(read_corpus(tmp_path)).items()})
    assert splits[0] == splits[1] == splits[2]


@settings(max_examples=30)
@given(st.lists(st.text(min_size=1), unique=True), st.randoms())
def test_seeded_splits_depend_on_names_alone(names, rng):
    shuffled = names + names[: len(names) // 2]
    rng.shuffle(shuffled)
    splits = seeded_splits(names)
    assert seeded_splits(shuffled) == splits
    sizes = [sum(split == wanted for split in splits.values()) for wanted in ("train", "val", "test")]
    tenth = max(len(names) // 10, 1) if len(names) >= 3 else 0
    assert sizes == [len(names) - 2 * tenth, tenth, tenth]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("captions_val2014", "val"),
        ("cc3m-train-0001", "train"),
        ("Flickr_8k.devImages", "val"),
        ("test/0", "test"),
        ("trainees", None),
        ("train_and_val", None),
        ("shard-0", None),
    ],
)
def test_split_in_name(name, split):
    assert split_in_name(name) == split


TABLE = (
    "image\tsplit\tcap1\tcap2\n"
    'a.jpg\ttrain\tA "dog" runs.\tA dog\n'
    "b.jpg\ttest\tA cat\t\n"
    "broken line\n\n"
    "c.jpg\tval\tA cow\tThe cow\r\n"
)
FLICKR30K = Path(__file__).parents[3] / ".." / "shared" / "flickr30k-text"


@pytest.mark.parametrize("name", ["captions.tsv", "captions.tsv.gz"])
def test_sentences_without_images(tmp_path, content, name):
    data = TABLE.encode()
    (tmp_path / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    (tmp_path / "README.md").write_text("about it")
    for path in (tmp_path, tmp_path / name):
        corpus = read_corpus(path)
        assert content(corpus) == {
            "a.jpg": ("train", ['A "dog" runs.', "A dog"]),
            "b.jpg": ("test", ["A cat"]),
            "c.jpg": ("val", ["A cow", "The cow"]),
        }
        assert corpus.issues.counts[MALFORMED_LINE] == 1
        assert all(image.source is None for image in corpus.images)


def test_a_csv_has_quotes(tmp_path, content):
    (tmp_path / "x.csv").write_text('image,cap1,split\na.jpg,"A dog, running",train\n')
    assert content(read_corpus(tmp_path)) == {"a.jpg": ("train", ["A dog, running"])}


def test_it_is_summarised_and_cannot_be_encoded(tmp_path, monkeypatch):
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "x.tsv").write_text(TABLE)
    corpus = read_corpus(tmp_path / "x.tsv")
    assert not summarise(corpus, check_images=True)["issues"].keys() - corpus.issues.counts.keys()
    assert (
        list(
            rare_word_summary(*(corpus.split(name).texts() for name in ("train", "test")))[
                "frequencies"
            ].values()
        ).count(0)
        == 1
    )
    with pytest.raises(SeesayError, match="no image of split 'train' can be used"):
        split_inputs(load_recipe("vse++"), corpus, "train", Vocabulary([]))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x1f\x8bnothing", "truncated or damaged gzip file"),
        (gzip.compress(b"who\tcap1\n", mtime=0), "no column image; it has the columns who, cap1"),
        (gzip.compress(b"image\tcap1\tsplit\na\tA dog\tmiddle\n", mtime=0), "split 'middle'"),
        (gzip.compress(b"image\tcap1\n", mtime=0), "nothing left"),
        (gzip.compress(b"image\tcap1\na\t\x81\n", mtime=0), "byte 0x81 is not UTF-8"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, data, said):
    (tmp_path / "x.tsv.gz").write_bytes(data)
    with pytest.raises(SeesayError, match=said):
        read_corpus(tmp_path / "x.tsv.gz", "table")


@pytest.mark.slow  # small tables and small vocabularies are read in the tests above and in tests/text
@pytest.mark.skipif(not FLICKR30K.exists(), reason=f"real data: no sentences at {FLICKR30K}")
def test_flickr30ks_sentences():
    corpus = read_corpus(FLICKR30K)
    assert [len(corpus.split(split).images) for split in ("train", "val", "test")] == [29000, 1014, 1000]
    found = rare_word_summary(*(corpus.split(name).texts() for name in ("train", "test")))[
        "frequencies"
    ].values()
    assert [sum(count <= k for count in found) for k in range(4)] == [208, 343, 470, 560]


def test_json_lines_without_the_column_name_those_they_have(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "t.jsonl").write_text('{"image": "a.jpg", "caption": "a dog"}\n')
    said = "no column nope.*image, caption"
    with pytest.raises(SeesayError, match=said):
        read_corpus(tmp_path / "t.jsonl", caption_column="nope")


def test_the_time_of_reading_a_header_is_linear(tmp_path):
    """Also of thousands of columns without a name, which are numbered."""

    def read(line):
        (tmp_path / "t.csv").write_text(line)
        return TableFormat(("image",)).fits(tmp_path / "t.csv")

    check_linear(read, lambda size: "," * size, 60_000)


def test_a_cell_may_be_a_list_of_sentences(tmp_path, photos, content):
    photos("a.jpg", "b.jpg")
    rows = ['"[ ""A dog ."", ""A cat, too .""]",train,a.jpg', '"[not a list] of a dog",test,b.jpg']
    (tmp_path / "flickr_annotations_30k.csv").write_text("\n".join(["raw,split,filename", *rows]))
    assert content(read_corpus(tmp_path)) == {
        "a.jpg": ("train", ["A dog .", "A cat, too ."]),
        "b.jpg": ("test", ["[not a list] of a dog"]),
    }


@pytest.mark.parametrize(
    ("cell", "texts", "lost"),
    [
        ("""['A dog', "It's a cat"]""", ["A dog", "It's a cat"], 0),
        (r"['A dog\'s bone']", ["A dog's bone"], 0),
        (r"['A \xg']", [r"['A \xg']"], 0),
        ("['A dog' 'A cat']", ["['A dog' 'A cat']"], 0),  # which Python would join
        ('["A dog", null]', ["A dog"], 1),
        ("[]", [], 1),
        ("[1, 2]", ["[1, 2]"], 0),
    ],
)
def test_a_list_in_a_cell_may_be_as_pandas_writes_it_and_lack_sentences(tmp_path, photos, cell, texts, lost):
    photos("a.jpg")
    (tmp_path / "x.csv").write_text("image,caption\na.jpg,{}\n".format('"' + cell.replace('"', '""') + '"'))
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == texts
    assert sum(corpus.issues.counts[kind] for kind in corpus.issues.omissions) == lost


def test_a_list_of_sentences_may_lack_one_in_json(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "x.jsonl").write_text('{"image": "a.jpg", "caption": ["A dog", null]}\n')
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["A dog"]
    assert sum(corpus.issues.counts[kind] for kind in corpus.issues.omissions) == 1


@pytest.mark.parametrize("empty", ["", "nan", "NaN", "None", "null", "NULL"])
def test_a_word_for_an_empty_cell_is_no_caption(tmp_path, photos, empty):
    photos("a.jpg", "b.jpg")
    (tmp_path / "x.csv").write_text(f"image,caption,split\na.jpg,A dog,{empty}\nb.jpg,{empty},train\n")
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["A dog"]
    assert sum(corpus.issues.counts[kind] for kind in corpus.issues.omissions) == 1


def test_a_null_caption_in_the_first_row_drops_only_that_row(tmp_path, photos):
    photos("a.jpg", "b.jpg")
    rows = '{"image": "a.jpg", "caption": null}', '{"image": "b.jpg", "caption": "A dog"}'
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["A dog"]
    assert corpus.issues.examples[EMPTY_SENTENCE] == [f"{tmp_path}/x.jsonl:1"]


@pytest.mark.parametrize(
    "text",
    [
        "image;caption\ra.jpg;A dog, black\ra.jpg\r",
        "sep=;\nimage;caption\na.jpg;A dog, black\na.jpg\n",
        "\ufeffsep=;\r\nimage;caption\r\na.jpg;A dog, black\r\na.jpg\r\n",
    ],
)
def test_tables_of_other_programs(tmp_path, photos, text):
    photos("a.jpg")
    (tmp_path / "x.csv").write_bytes(text.encode())
    corpus = read_corpus(tmp_path)
    assert corpus.texts() == ["A dog, black"]
    last = 4 if "sep" in text else 3
    assert corpus.issues.examples[MALFORMED_LINE] == [f"{tmp_path}/x.csv:{last}: 1 columns, not 2"]


@pytest.mark.parametrize("named", ['"12"', "12", "12.0"])
def test_an_image_may_be_named_by_a_number(tmp_path, photos, named):
    photos("12.jpg")
    (tmp_path / "x.jsonl").write_text(f'{{"image": {named}, "caption": "A dog"}}')
    assert read_corpus(tmp_path).texts() == ["A dog"]


def test_a_damaged_text_that_is_probably_no_table_is_left_alone(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "log.txt.gz").write_bytes(b"no gzip")
    corpus = read_corpus(tmp_path)
    assert [image.name for image in corpus.images] == ["a.jpg"]
    assert corpus.issues.examples[OTHER_FILE] == [str(tmp_path / "log.txt.gz")]


def test_columns_are_named_for_tables_of_sentences_only(tmp_path, photos):
    photos("a.jpg")
    write_phrases = "image,phrase,x1,y1,x2,y2\na.jpg,a dog,0,0,5,5\n"
    (tmp_path / "t.csv").write_text(write_phrases)
    for choice in ({"phrases": True}, {"format": "folder"}):
        with pytest.raises(SeesayError, match="has no columns to be named; leave out caption_column"):
            read_corpus(tmp_path, **choice, caption_column="words")


def test_a_message_names_a_few_of_many_columns(tmp_path, photos):
    photos("a.jpg")
    rows = "".join(json.dumps({f"key{number}": "a dog"}) + "\n" for number in range(1000))
    (tmp_path / "t.jsonl").write_text(rows)
    with pytest.raises(SeesayError, match="key19 and 980 more") as failure:
        read_corpus(tmp_path / "t.jsonl", "table")
    assert len(str(failure.value)) < 500
