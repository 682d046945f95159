import numpy as np
import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.builder import EMPTY_SENTENCE
from seesay.data.readers.captions import PART_OF_TESTALL
from seesay.errors import SeesayError


def write(folder, stem, rows, lines):
    np.save(folder / f"{stem}_ims.npy", rows)
    (folder / f"{stem}_caps.txt").write_bytes("".join(f"{line}\n" for line in lines).encode())


def features(*shape, seed=0):
    return np.random.default_rng(seed).random(shape, np.float32)


@pytest.mark.parametrize("shape", [(6,), (3, 6)])
def test_one_row_an_image(tmp_path, content, shape):
    train, dev = features(4, *shape), features(2, *shape, seed=1)
    write(tmp_path, "train", train, [f"t{i}" for i in range(20)])
    write(tmp_path, "dev", dev, [f"d{i}" for i in range(10)])
    corpus = read_corpus(tmp_path)
    assert corpus.features.shape == (6, *shape)
    assert content(corpus.split("val"))["dev/1"] == ("val", [f"d{i}" for i in range(5, 10)])
    for split, wanted in (("train", train), ("val", dev)):
        rows = [image.row for image in corpus.split(split).images]
        assert (corpus.features[np.array(rows)] == wanted).all()


def test_one_row_a_sentence(tmp_path, content):
    rows = features(3, 6)
    write(tmp_path, "test", np.repeat(rows, 5, axis=0), [f"s{i}" for i in range(15)])
    corpus = read_corpus(tmp_path)
    assert content(corpus)["test/5"] == ("test", [f"s{i}" for i in range(5, 10)])
    assert (corpus.features[[image.row for image in corpus.images]] == rows).all()


def test_a_row_with_nan_is_one_image(tmp_path, content):
    rows = features(3, 6)
    rows[1, 2] = np.nan
    write(tmp_path, "test", np.repeat(rows, 5, axis=0), [f"s{i}" for i in range(15)])
    assert list(content(read_corpus(tmp_path))) == ["test/0", "test/5", "test/10"]


def test_equal_features_of_neighbouring_images_do_not_merge_them(tmp_path):
    rows = features(3, 6)[[0, 1, 1]]
    write(tmp_path, "test", np.repeat(rows, 5, axis=0), [f"s{i}" for i in range(15)])
    assert len(read_corpus(tmp_path).images) == 3


def test_runs_of_other_lengths_and_of_one(tmp_path):
    write(tmp_path, "train", features(3, 6)[[0, 0, 1, 2, 2, 2]], list("abcdef"))
    write(tmp_path, "test", features(4, 6, seed=2), list("abcd"))
    corpus = read_corpus(tmp_path)
    assert np.bincount(corpus.split("train").image_of_sentence()).tolist() == [2, 1, 3]
    assert len(corpus.split("test").images) == 4


def test_runs_are_found_in_long_files(tmp_path):
    write(tmp_path, "test", np.repeat(features(700, 2), 3, axis=0), [str(i) for i in range(2100)])
    assert len(read_corpus(tmp_path).images) == 700


def test_lines_keep_their_place(tmp_path, content):
    # An empty sentence, and characters that str.splitlines takes for line ends.
    write(tmp_path, "test", features(2, 6), ["", "a\x0cb", "c\u2028d", "e\r"])
    corpus = read_corpus(tmp_path)
    assert content(corpus) == {"test/0": ("test", ["a b"]), "test/1": ("test", ["c d", "e"])}
    assert corpus.issues.counts[EMPTY_SENTENCE] == 1
    assert corpus.issues.examples[EMPTY_SENTENCE] == [f"{tmp_path}/test_caps.txt:1"]


def test_testall_holds_test(tmp_path):
    write(tmp_path, "testall", features(5, 6), [str(i) for i in range(25)])
    write(tmp_path, "test", features(1, 6), [str(i) for i in range(5)])
    corpus = read_corpus(tmp_path)
    assert len(corpus.split("test").images) == 5
    assert corpus.issues.counts[PART_OF_TESTALL] == 1


def test_files_that_do_not_fit_are_refused(tmp_path):
    write(tmp_path, "test", features(2, 6), ["a", "b", "c"])
    with pytest.raises(SeesayError, match="3 lines for 2 rows"):
        read_corpus(tmp_path)
    write(tmp_path, "test", features(3, 6), ["a"])
    with pytest.raises(SeesayError, match="1 lines for 3 rows"):
        read_corpus(tmp_path)
    write(tmp_path, "test", features(2, 6), ["a", "b"])
    write(tmp_path, "train", features(2, 7), ["a", "b"])
    with pytest.raises(SeesayError, match=r"train_ims\.npy: .* shape \(7,\), and \(6,\) in test_ims\.npy"):
        read_corpus(tmp_path)
    (tmp_path / "train_ims.npy").unlink()
    (tmp_path / "test_caps.txt").unlink()
    with pytest.raises(SeesayError, match=r"test_caps\.txt: cannot be read"):
        read_corpus(tmp_path)


@pytest.mark.parametrize("rows", [np.zeros(4), np.zeros((2, 2, 2, 2)), np.array([["a"]]), np.array([[None]])])
def test_arrays_of_other_things_are_refused(tmp_path, rows):
    np.save(tmp_path / "test_ims.npy", rows, allow_pickle=True)
    (tmp_path / "test_caps.txt").write_text("a\n")
    with pytest.raises(SeesayError, match=r"test_ims\.npy"):
        read_corpus(tmp_path)


def test_damaged_arrays_are_refused(tmp_path):
    write(tmp_path, "test", features(40, 6), ["a"] * 40)
    whole = (tmp_path / "test_ims.npy").read_bytes()
    for data in (b"", b"junk", whole[:50], whole[:300]):
        (tmp_path / "test_ims.npy").write_bytes(data)
        with pytest.raises(SeesayError, match=r"test_ims\.npy"):
            read_corpus(tmp_path)
