"""Re-ranking of an index of drawn scenes by a small pair matcher, against its own score matrix."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seesay.data.decoders import Decoders
from seesay.encoders.images.encode import encode_images
from seesay.errors import ImageError, SeesayError
from seesay.runs.config import RunConfig
from seesay.runs.images import join_features
from seesay.runs.run import Run
from seesay.search import Hit, Index
from seesay.search.rerank import Reranker, check_reranks, reordered
from tests.other_python import start_instead
from tests.search.colours import Colours, picture

TEXT = "a red circle is above a blue square"
TEXTS = ["a red circle", "a blue square", "a green triangle", "something yellow"]


@pytest.fixture(scope="module")
def run(pair_run: Path) -> Run:
    return Run.load(str(pair_run))


@pytest.fixture(autouse=True)
def own_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(scenes: Path, tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for path in sorted((scenes / "images").iterdir())[:12]:
        shutil.copy(path, tmp_path / "photos")
    return tmp_path / "photos"


@pytest.fixture
def index(photos: Path, tmp_path: Path):
    made = Index.create(tmp_path / "index", Colours())
    made.update_images(photos)
    made.add_sentences(TEXTS)
    yield made
    made.close()


def plain_scores(run: Run, images: list[bytes], texts: list[str]) -> np.ndarray:
    encoded = encode_images(run.encoders, images, ["image"] * len(images))
    sentences = run.prepare(texts)
    return run.score_prepared(join_features(run.config.arrays, encoded.arrays), sentences)


def test_images_are_ordered_by_the_run(index: Index, photos: Path, run: Run) -> None:
    before = index.search(TEXT, 12)
    found = Reranker(run).search(index, TEXT, 5)
    paths = [str(hit.path) for hit in before]
    scores = plain_scores(run, [(photos / path).read_bytes() for path in paths], [TEXT])[:, 0]
    order = np.argsort(-scores)[:5]
    assert [hit.path for hit in found.hits] == [paths[i] for i in order]
    # Kept features are of half precision.
    assert [hit.score for hit in found.hits] == pytest.approx(scores[order], rel=5e-3, abs=5e-3)
    assert [hit.shortlist_rank for hit in found.hits] == (order + 1).tolist()
    assert [hit.shortlist_score for hit in found.hits] == [before[i].score for i in order]
    assert (found.compared, found.encoded, found.issues) == (12, 12, [])


def test_a_shortlist_is_the_indexs_best_and_never_shorter_than_k(index: Index, run: Run) -> None:
    best = {hit.path for hit in index.search(TEXT, 4)}
    reranker = Reranker(run, shortlist=4)
    assert {hit.path for hit in reranker.search(index, TEXT, 4).hits} == best
    assert [hit.path in best for hit in reranker.search(index, TEXT, 2).hits] == [True, True]
    assert reranker.search(index, TEXT, 7).compared == 7


def test_what_a_misspelt_sentence_means_is_reranked(index: Index, run: Run) -> None:
    meant = Reranker(run).search(index, TEXT, 5)
    index.run.misspelt["circcle"] = "circle"
    found = Reranker(run).search(index, TEXT.replace("circle", "circcle"), 5)
    assert found.hits == meant.hits
    assert found.hits.corrected_words == {"circcle": "circle"}


def test_features_are_computed_once_and_found_by_the_next(index: Index, run: Run) -> None:
    first = Reranker(run, shortlist=5)
    other = Reranker(run)
    whole = first.search(index, TEXT, 5)
    assert whole.encoded == 5
    again = first.search(index, TEXT, 5)
    assert again.encoded == 0
    assert again.hits == whole.hits
    assert other.search(index, TEXT, 12).encoded == 7
    assert Reranker(run).search(index, TEXT, 12).encoded == 0


def test_a_photo_that_crashes_its_decoder_crashes_that_process_only(
    index: Index, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = index.search(TEXT, 12)
    monkeypatch.setattr("seesay.data.decoders.PHOTOS", Decoders(seconds=20))
    start_instead("kill -SEGV $$", tmp_path, monkeypatch)
    found = Reranker(run).search(index, TEXT, 12)
    assert found.hits == before
    assert [str(error).split(": ")[1] for error in found.issues] == ["cannot be decoded."] * 12


def test_what_cannot_be_looked_at_stands_behind_in_its_old_order(
    index: Index, photos: Path, run: Run
) -> None:
    before = index.search(TEXT, 12)
    gone, broken = before[0], before[3]
    (photos / str(gone.path)).unlink()
    (photos / str(broken.path)).write_bytes(b"\xff\xd8 nothing")
    found = Reranker(run).search(index, TEXT, 12)
    assert found.hits[-2:] == [gone, broken]
    assert all(hit.shortlist_rank for hit in found.hits[:-2])
    told = sorted(str(error) for error in found.issues)
    assert len(told) == 2
    assert any(f"{gone.path}: the file is missing" in line for line in told)
    assert any(str(broken.path) in line for line in told)
    for path in photos.iterdir():
        path.unlink()
    kept = Reranker(run).search(index, TEXT, 3)  # features outlive their files
    assert [hit.path for hit in kept.hits] == [hit.path for hit in found.hits[:3]]


def test_no_image_at_all(tmp_path: Path, index: Index, photos: Path, run: Run) -> None:
    empty = Index.create(tmp_path / "empty", Colours())
    assert Reranker(run).search(empty, TEXT).hits == []
    assert Reranker(run).sentences_for(empty, picture("red")).hits == []
    empty.close()
    before = index.search(TEXT, 3)
    for path in photos.iterdir():
        path.unlink()
    assert Reranker(run).search(index, TEXT, 3).hits == before


def test_a_file_that_leads_out_of_the_folder_is_not_read(
    index: Index, photos: Path, tmp_path: Path, run: Run
) -> None:
    first = index.search(TEXT, 1)[0]
    (tmp_path / "secret.png").write_bytes(picture("black"))
    (photos / str(first.path)).unlink()
    (photos / str(first.path)).symlink_to(tmp_path / "secret.png")
    found = Reranker(run).search(index, TEXT, 12)
    assert found.hits[-1] == first
    assert len(found.issues) == 1


def test_a_file_that_changed_is_compared_as_it_is_now(index: Index, photos: Path, run: Run) -> None:
    first, second = index.search(TEXT, 2)
    shutil.copy(photos / str(second.path), photos / str(first.path))
    found = {hit.path: hit.score for hit in Reranker(run).search(index, TEXT, 12).hits}
    assert found[first.path] == found[second.path]


def test_sentences_are_ordered_by_the_run(index: Index, photos: Path, run: Run) -> None:
    image = min(photos.iterdir()).read_bytes()
    before = [str(hit.text) for hit in index.sentences_for(image)]
    scores = plain_scores(run, [image], before)[0]
    found = Reranker(run).sentences_for(index, image, 3)
    order = np.argsort(-scores)[:3]
    assert [hit.text for hit in found.hits] == [before[i] for i in order]
    assert [hit.score for hit in found.hits] == pytest.approx(scores[order], rel=1e-5)
    assert found.compared == 4
    with pytest.raises(ImageError):
        Reranker(run).sentences_for(index, b"no image")


def test_many_threads_ask_at_once(index: Index, run: Run) -> None:
    reranker = Reranker(run)
    answers: list[list[Hit]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(reranker.search(index, TEXT).hits)) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [answers[0]] * 6


def test_equal_scores_keep_the_order_of_the_shortlist() -> None:
    hits = [Hit(i, 1 - i / 10, f"{i}.png", None) for i in range(5)]
    found = reordered(hits, [0, 2, 4], np.array([1.0, 1.0, 2.0], np.float32))
    assert [hit.id for hit in found] == [4, 0, 2, 1, 3]
    assert [hit.shortlist_rank for hit in found] == [5, 1, 3, None, None]


def test_an_embedding_run_re_ranks_too(index: Index, photos: Path) -> None:
    small = Run.load("seesay-small")
    found = Reranker(small).search(index, TEXT, 3)
    vectors = small.embed_images([photos / str(hit.path) for hit in found.hits])
    cosines = vectors @ small.embed_sentences([TEXT])[0]
    assert [hit.score for hit in found.hits] == pytest.approx(cosines, abs=2e-3)


def test_runs_that_cannot(grounding_run: Path, pair_run: Path) -> None:
    check_reranks(str(pair_run))
    with pytest.raises(SeesayError, match="no run there"):
        check_reranks("nowhere")
    with pytest.raises(SeesayError, match="matches phrases with regions"):
        check_reranks(str(grounding_run))
    with pytest.raises(SeesayError, match="matches phrases with regions"):
        Reranker(Run.load(str(grounding_run)))


def test_a_run_whose_scores_depend_on_the_query_cannot(pair_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(pair_run, tmp_path / "run"))
    replace(RunConfig.load(run), asymmetric=True).save(run)
    with pytest.raises(SeesayError, match="its scores depend on whether the image or the sentence is"):
        check_reranks(str(run))


def test_damaged_weights_are_an_error(index: Index, pair_run: Path) -> None:
    run = Run.load(str(pair_run))
    for weights in run.matcher.parameters():
        weights.data.fill_(np.nan)
    damaged = Run.from_matcher(run.folder, run.recipe, run.vocabulary, run.sentence_encoder, run.matcher)
    with pytest.raises(SeesayError, match="not finite"):
        Reranker(damaged).search(index, TEXT)
