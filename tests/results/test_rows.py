import json
import subprocess

import pytest

from seesay.errors import SeesayError
from seesay.results.rows import read_rows, record_row, source_commit, validate_row


def row(**changed):
    way = {"R@1": 30.0, "R@5": 60.1, "R@10": 74.1, "Med r": 4.0}
    return {
        "protocol": "standard", "split": "test", "images": 1000, "sentences": 5000,
        "sentence_retrieval": way, "image_retrieval": way, "mR": 54.7,
        "recipe": "irmatch-s", "seed": 1, "encoder": "lite0", "commit": "abc", "seconds": 60.0,
    } | changed  # fmt: skip


def test_rows_are_kept_sorted_and_a_new_measurement_replaces_the_old(tmp_path):
    for one in (row(seed=10), row(seed=2), row(recipe="irmatch-h"), row(seed=2, mR=55.0, commit="def")):
        path = record_row(tmp_path / "results", "flickr8k", one)
    rows = read_rows(path)
    assert [(r["recipe"], r["seed"]) for r in rows] == [("irmatch-h", 1), ("irmatch-s", 2), ("irmatch-s", 10)]
    assert (rows[1]["mR"], rows[1]["commit"]) == (55.0, "def")
    assert [entry.name for entry in path.parent.iterdir()] == ["flickr8k.jsonl"]


@pytest.mark.parametrize(
    "changed",
    [
        {"encoder": "lite2"},
        {"split": "val"},
        {"protocol": "coco-1k"},
        {"crops": "ten"},
        {"changes": ["batch_size=100"]},
    ],
)
def test_what_tells_rows_apart(tmp_path, changed):
    record_row(tmp_path, "flickr8k", row())
    assert len(read_rows(record_row(tmp_path, "flickr8k", row(**changed)))) == 2


def test_extra_keys_are_kept_and_a_seed_set_by_hand_is_no_change(tmp_path):
    record_row(tmp_path, "flickr8k", row(seed=3, changes=[]))
    path = record_row(tmp_path, "flickr8k", row(seed=3, changes=["seed=3"], note="größer"))
    assert [r["note"] for r in read_rows(path)] == ["größer"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"mR": 101.0}, "key 'mR'"),
        ({"mR": float("nan")}, "key 'mR'"),
        ({"seed": "1"}, "key 'seed'"),
        ({"image_retrieval": {"R@1": 1.0}}, "key 'image_retrieval.R@5'"),
    ],
)
def test_a_wrong_row_is_refused_and_writes_nothing(tmp_path, changed, said):
    with pytest.raises(SeesayError, match=said):
        record_row(tmp_path, "flickr8k", row(**changed))
    assert not list(tmp_path.iterdir())


def test_rows_of_one_direction_stand_beside_the_others(tmp_path):
    grounding = {
        "protocol": "grounding", "split": "test", "images": 677, "n": 3100, "upper bound": 80.0,
        "R@1": 40.0, "R@5": 60.0, "R@10": 70.0, "by kind": {"people": {"R@1": 50.0}},
        "recipe": "ground-full", "seed": 1, "encoder": "lite0", "commit": "abc", "seconds": 60.0,
    }  # fmt: skip
    sentences = grounding | {"protocol": "sentence-to-sentence", "Med r": 1.0, "upper bound": None}
    for one in (grounding, row(), sentences, grounding | {"R@1": 41.0}):
        path = record_row(tmp_path, "flickr8k", one)
    assert [r.get("R@1") for r in read_rows(path)] == [41.0, 40.0, None]
    for key, wrong in (("R@5", 101.0), ("upper bound", -1.0), ("Med r", 0.0), ("split", None)):
        with pytest.raises(SeesayError, match=f"key '{key}'"):
            record_row(tmp_path, "flickr8k", grounding | {key: wrong})


def test_composition_has_kinds(tmp_path):
    kind = {
        "true order": 80.0, "standard error": 0.5, "ties": 0.0, "difference": 0.7, "n": 3000, "left out": 4,
    }  # fmt: skip
    about = {"protocol": "composition", "by kind": {"shuffle": kind, "swap": kind | {"standard error": None}}}
    composition = {k: v for k, v in row().items() if k not in ("mR", "sentence_retrieval")} | about
    assert read_rows(record_row(tmp_path, "flickr8k", composition)) == [composition]
    for key, wrong in (("true order", 101.0), ("n", 0), ("ties", None), ("difference", "x")):
        with pytest.raises(SeesayError, match=f"key 'by kind.swap.{key}'"):
            validate_row(composition | {"by kind": {"swap": kind | {key: wrong}}}, "here")
    with pytest.raises(SeesayError, match="key 'by kind'"):
        validate_row(composition | {"by kind": {}}, "here")


def test_concepts_have_precisions_and_no_sentences(tmp_path):
    about = {"protocol": "concepts", "concepts": 256, "mAP": 34.5, "image mAP": 50.8}
    retrieval = ("sentences", "mR", "sentence_retrieval", "image_retrieval")
    concepts = {key: value for key, value in row().items() if key not in retrieval} | about
    assert read_rows(record_row(tmp_path, "flickr8k", concepts)) == [concepts]
    with pytest.raises(SeesayError, match="key 'image mAP'"):
        record_row(tmp_path, "flickr8k", concepts | {"image mAP": 101.0})


def test_a_row_needs_its_origin():
    without = row()
    del without["commit"]
    with pytest.raises(SeesayError, match="here: key 'commit'"):
        validate_row(without, "here")


@pytest.mark.parametrize("line", ["{", "[1]", "{}"])
def test_a_broken_line_is_named(tmp_path, line):
    path = tmp_path / "flickr8k.jsonl"
    path.write_text(json.dumps(row()) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(SeesayError, match=r"flickr8k\.jsonl:2"):
        read_rows(path)
    with pytest.raises(SeesayError):
        record_row(tmp_path, "flickr8k", row(seed=5))
    assert path.read_text(encoding="utf-8").endswith(line + "\n")


@pytest.mark.parametrize("name", ["", "../flickr8k", "a/b", ".hidden"])
def test_a_corpus_name_is_no_path(tmp_path, name):
    with pytest.raises(SeesayError, match="no name for a results file"):
        record_row(tmp_path, name, row())


def test_the_commit_says_whether_the_source_has_changed(tmp_path):
    def git(*arguments):
        command = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    git("init")
    assert source_commit(tmp_path) is None
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "one")
    commit = source_commit(tmp_path)
    assert len(commit) == 10
    (tmp_path / "file").write_text("2")
    assert source_commit(tmp_path) == f"{commit}+"
