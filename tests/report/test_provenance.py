"""The digest of the data that a report was measured on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.report.provenance import data_digest


def test_other_pixels_are_other_data(corpus: Corpus, scenes: Path, tmp_path: Path) -> None:
    copy = read_corpus(shutil.copytree(scenes, tmp_path / "scenes"))
    before = data_digest(copy, "test")
    assert data_digest(corpus, "test") == before  # where it lies does not matter
    image = next(image for image in copy.images if image.split == "test")
    image.source.path.write_bytes(b"broken")
    broken = data_digest(copy, "test")
    image.source.path.unlink()
    assert len({before, broken, data_digest(copy, "test")}) == 3


def test_sentences_of_the_split_and_of_val_count_and_no_others(corpus: Corpus) -> None:
    digests = {name: data_digest(corpus, name) for name in ("test", "val", "train")}
    assert len(set(digests.values())) == 3
    for split, changed in (("train", {"train"}), ("val", {"test", "val", "train"}), ("test", {"test"})):
        sentence = next(i for i, s in enumerate(corpus.sentences) if corpus.images[s.image].split == split)
        sentences = list(corpus.sentences)
        sentences[sentence] = replace(sentences[sentence], text="a dog")
        other = replace(corpus, sentences=tuple(sentences))
        assert {name for name in digests if data_digest(other, name) != digests[name]} == changed
