"""A report of every kind of run: what it says is what is measured, and it needs nothing beside it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.paths import check_file
from seesay.protocols.base import PROTOCOLS, CorpusContent
from seesay.protocols.evaluate import evaluate, open_entries, open_entry, subject_of
from seesay.recipes.load import dump_recipe
from seesay.report.queries import RankedAnswer, SplitQueries
from seesay.report.write import FORMATS, write_report
from seesay.results.records import source_commit
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run
from tests.report.made import Elements


@pytest.fixture(scope="module")
def page(matching_page: Path) -> Elements:
    return Elements(matching_page.read_text(encoding="utf-8"))


def inputs_of(run: Run, corpus: Corpus) -> Inputs:
    return split_inputs(run.recipe, corpus, "test", run.vocabulary, run.sentence_encoder)


@pytest.mark.slow
@pytest.mark.parametrize("made", ["matching_page", "grounding_page"])
def test_it_needs_nothing_beside_it(request, made: str) -> None:
    text = request.getfixturevalue(made).read_text(encoding="utf-8")
    elements = Elements(text)
    assert not elements.of("script")
    assert not elements.of("link")
    for element in elements.all:
        for key in ("src", "href", "xlink:href"):
            assert element.get(key, "#").startswith(("#", "data:image/jpeg;base64,"))
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text
    assert all(image["alt"] for image in elements.of("img"))
    ids = [element["id"] for element in elements.all if "id" in element]
    assert len(ids) == len(set(ids))


def test_its_sections(page: Elements) -> None:
    named = [heading["text"] for heading in page.of("h2")]
    runs = ["common", "fused", "attends", "reads"]
    assert named == ["Recall", "Queries and answers", *runs, "Where it comes from"]


def test_its_recalls_are_those_that_are_measured(
    page: Elements, runs: dict[str, Run], corpus: Corpus
) -> None:
    start = page.all.index(page.of("table")[0])
    row = [e for e in page.all[start:] if e["tag"] in ("th", "td", "small")]
    at = next(i for i, e in enumerate(row) if e["text"] == "fused")
    cells = [e["text"] for e in row[at + 1 : at + 19] if e["tag"] == "td"]
    found = evaluate(runs["fused"], corpus)
    wanted = [(value, *found.intervals[column]) for column, value in found.metrics.items()]
    assert cells == [f"{value:.1f}{low:.1f}–{high:.1f}" for value, low, high in wanted]


def test_right_answers_are_ticked_and_no_others(page: Elements, runs: dict[str, Run], corpus: Corpus) -> None:
    """Every answer says its rank, and as many answers are ticked as the scores say are right."""
    split = corpus.split("test")
    owners, numbers = split.image_of_sentence(), np.arange(len(split.images))
    texts = split.texts()
    shown = []
    for name in ("common", "fused", "attends", "reads"):
        subject = subject_of(runs[name], corpus, "test", PROTOCOLS["standard"])
        by_image, by_sentence = subject.scores.by_direction()
        for queries in (
            SplitQueries.random(split),
            SplitQueries.hardest(split, subject.retrieval_sample().ranks),
        ):
            shown += [RankedAnswer.of(by_image[i], owners == i) for i in queries.images]
            shown += [
                RankedAnswer.of(by_sentence[:, texts.index(text)], np.isin(numbers, images))
                for text, images in queries.sentences
            ]
    assert len(page.of("span", class_="tick")) == sum(sum(each.right) for each in shown)
    assert sorted(e["text"].split("rank ")[1] for e in page.of("p", class_="who")) == sorted(
        f"{each.rank:,}" for each in shown
    )


def test_a_tick_is_a_word_for_who_does_not_see_it(page: Elements) -> None:
    assert {tick["aria-label"] for tick in page.of("span", class_="tick")} == {"right"}


def test_where_it_comes_from(page: Elements, runs: dict[str, Run], corpus: Corpus) -> None:
    told = {dt["text"] for dt in page.of("dt")}
    assert {"digest", "versions", "machine", "seed", "recipe", "departures"} <= told
    values = [dd["text"] for dd in page.of("dd")]
    assert any(value.startswith(CorpusContent.of(corpus.split("test")).digest) for value in values)
    assert source_commit() in (None, *values)
    recipes = [pre["text"] for pre in page.of("pre")]
    assert recipes == [dump_recipe(run.recipe) for name, run in runs.items() if name != "concepts"]


def test_training_is_drawn_where_it_was_kept(page: Elements) -> None:
    drawn = [svg["aria-label"] for svg in page.of("svg", role="img")]
    assert sum("Curves over epoch" in label for label in drawn) == 1


def test_grounding_shows_true_and_found_boxes(grounding_page: Path) -> None:
    page = Elements(grounding_page.read_text(encoding="utf-8"))
    named = [heading["text"] for heading in page.of("h2")]
    assert named == ["Recall", "Phrases and boxes", "Training", "Where it comes from"]
    assert len(page.of("rect", class_="over true")) == len(page.of("rect", class_="over found")) == 12
    told = [n["text"] for n in page.of("span", class_="number") if "IoU" in n["text"]]
    assert len(told) == 12
    assert all((text[0] == "✓") == (float(text[-4:]) >= 0.5) for text in told if text[-4:] != "0.50")
    assert "random proposal" in [th["text"] for th in page.of("th", scope="row")]


def test_scores_of_somebody_else(corpus: Corpus, tmp_path: Path, runs: dict[str, Run]) -> None:
    part = corpus.split("test")
    owners = part.image_of_sentence()
    scores = (np.arange(len(part.images))[:, None] == owners).astype(np.float32)
    np.save(tmp_path / "perfect.npy", scores)
    external = open_entry(str(tmp_path / "perfect.npy"))
    write_report([external, runs["common"]], corpus, "test", tmp_path / "out.html", lambda _: None)
    page = Elements((tmp_path / "out.html").read_text(encoding="utf-8"))
    assert "100.0100.0–100.0" in [cell["text"] for cell in page.of("td")]
    assert len(page.of("pre")) == 1


def test_chosen_queries_are_answered_by_every_run(
    corpus: Corpus, tmp_path: Path, runs: dict[str, Run]
) -> None:
    """Sentences that nobody wrote too, images, and the score of an image with a sentence."""
    part = corpus.split("test")
    known, image = part.sentences[3], part.images[part.sentences[3].image].name
    queries = tmp_path / "queries.txt"
    queries.write_text(f"{known.text}\na green xylophone\n{image}\n{image}\t{known.text}\n", encoding="utf-8")
    scores = np.zeros((len(part.images), len(part.sentences)), np.float32)
    scores[known.image, 3] = 0.25
    np.save(tmp_path / "theirs.npy", scores)
    entries = [runs["common"], open_entry(str(tmp_path / "theirs.npy"))]
    write_report(entries, corpus, "test", tmp_path / "o.html", lambda _: None, queries=queries)
    page = Elements((tmp_path / "o.html").read_text(encoding="utf-8"))
    assert "Chosen queries" in [heading["text"] for heading in page.of("h2")]
    assert "Not in train: xylophone" in " ".join(each["text"] for each in page.of("p"))
    told = [each["text"] for each in page.of("p", class_="who")]
    assert told[1].endswith("rank 1")  # the sentence of the split, by the scores of somebody else
    assert told[3].endswith("theirs.npy no scores of this sentence")
    assert told[2].strip() == "common"  # no image of the split is known to be right
    inputs = inputs_of(runs["common"], corpus)
    score = runs["common"].score_prepared(inputs.features, inputs.sentences)[known.image, 3]
    cells = [cell["text"] for cell in page.of("td")]
    at = cells.index("0.250")
    assert float(cells[at - 1]) == pytest.approx(float(score), abs=1e-3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected 1 to 200 lines"),
        ("x\n" * 201, "expected 1 to 200"),
        ("nope.jpg\ta dog", "no image 'nope.jpg'"),
    ],
)
def test_queries_that_cannot_be_asked_are_refused_before_anything_is_measured(
    corpus: Corpus, tmp_path: Path, runs: dict[str, Run], text: str, said: str
) -> None:
    (tmp_path / "queries.txt").write_text(text, encoding="utf-8")
    with pytest.raises(SeesayError, match=said):
        write_report(
            [runs["common"]],
            corpus,
            "test",
            tmp_path / "o.html",
            pytest.fail,
            queries=tmp_path / "queries.txt",
        )


def test_a_corpus_without_a_train_split_has_a_report(
    corpus: Corpus, tmp_path: Path, runs: dict[str, Run]
) -> None:
    write_report([runs["common"]], corpus.split("test"), "test", tmp_path / "o.html", lambda _: None)
    text = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert "Ke et al." not in text  # no paper has a row of that corpus
    assert "Differences of the other runs" not in text


def test_the_published_row_stands_beside(corpus: Corpus, tmp_path: Path, runs: dict[str, Run]) -> None:
    same = replace(corpus.split("test"), name="flickr8k")
    write_report([runs["common"]], same, "test", tmp_path / "o.html", lambda _: None)
    page = Elements((tmp_path / "o.html").read_text(encoding="utf-8"))
    assert "IRMatchS, Ke et al., 2017" in [cell["text"] for cell in page.of("th", scope="row")]
    differs = "common differs from IRMatchS in: one crop; images 6, published 1,000."
    assert differs in [each["text"] for each in page.of("p")]


def test_mistakes_are_said(corpus: Corpus, scenes: Path, tmp_path: Path, runs: dict[str, Run]) -> None:
    with pytest.raises(SeesayError, match=r"must end in \.html"):
        check_file(tmp_path / "report.pdf", FORMATS)
    with pytest.raises(SeesayError, match="no such folder"):
        check_file(tmp_path / "nowhere" / "report.html", FORMATS)
    np.save(tmp_path / "scores.npy", np.zeros((2, 2)))
    with pytest.raises(SeesayError, match="named twice"):
        open_entries([str(tmp_path / "scores.npy")] * 2)
    for entry in (runs["common"], open_entry(str(tmp_path / "scores.npy"))):
        with pytest.raises(SeesayError, match="phrases"):
            write_report(
                [entry], read_corpus(scenes, phrases=True), "test", tmp_path / "a.html", lambda _: None
            )
    assert not (tmp_path / "a.html").exists()
