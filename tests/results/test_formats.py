"""The formats of a table, each read back and compared with the figures that went in."""

from __future__ import annotations

import csv
import io
import json
import re
from statistics import fmean, stdev

import pytest

from seesay.errors import SeesayError
from seesay.recipes.table import TableDefinition
from seesay.results.paper_table import FORMATS, PaperTable, write_table
from tests.results.made import row

FIRSTS = {"irmatch-s": (28.0, 30.5), "vse++": (35.0,)}


@pytest.fixture
def table():
    definition = TableDefinition(
        name="mine",
        title="Retrieval & grounding, 100 % of λ_1 \\ #2",
        corpus="flickr8k",
        beside=("flickr30k",),
        protocol="standard",
        rows={"IRMatch": ["irmatch-s"], "Others_{x}": ["vse++", "sco~^"]},
    )
    made = PaperTable(definition, "flickr8k", "test")
    for name, firsts in FIRSTS.items():
        for seed, first in enumerate(firsts, start=1):
            made.line(name).rows.append(row(name, first, seed, departures=["50 % of the CNN_{a}"]))
    return made


def test_csv_has_every_figure_unrounded(table):
    lines = list(csv.DictReader(io.StringIO(table.data().csv())))
    assert [line["recipe"] for line in lines] == ["irmatch-s", "vse++", "sco~^"]
    first, second, third = lines
    assert (first["group"], first["seeds"], first["source"], first["table"]) == (
        "IRMatch",
        "2",
        "Ke et al., 2017",
        "2",
    )
    assert float(first["S R@1"]) == fmean(FIRSTS["irmatch-s"])
    assert float(first["S R@1 deviation"]) == pytest.approx(stdev(FIRSTS["irmatch-s"]))
    assert (float(first["S R@1 paper"]), float(first["I Med r paper"])) == (30.0, 4.0)
    assert (second["S R@1"], second["S R@1 deviation"], second["S Med r paper"]) == ("35.0", "", "")
    assert second["paper's corpus"] == "flickr30k"
    assert (third["seeds"], third["S R@1"]) == ("0", "")


def test_csv_cells_that_a_spreadsheet_would_compute_are_quoted():
    definition = TableDefinition(
        name="mine",
        title="t",
        corpus="flickr8k",
        protocol="standard",
        rows={"=1+1": ["vse++"], "@x": ["sco"]},
    )
    [first, second] = csv.DictReader(io.StringIO(PaperTable(definition, "flickr8k", "test").data().csv()))
    assert (first["group"], second["group"]) == ("'=1+1", "'@x")
    assert first["recipe"] == "vse++"


def test_latex_is_whole_and_escaped(table):
    text = table.table().latex()
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    spec = re.search(r"\\begin\{tabular\}\{(l?r*)\}", body)[1]
    columns = len(spec)
    assert spec == "l" + "r" * (columns - 1)
    rows = [line for line in body.splitlines() if " & " in line]
    assert len(rows) == 2 + 3
    for line in rows:
        assert line.endswith(r" \\")
        spanned = sum(int(width) - 1 for width in re.findall(r"multicolumn\{(\d+)\}", line))
        assert len(re.findall(r"(?<!\\)&", line)) + spanned == columns - 1
    assert set(re.findall(r"multicolumn\{(\d+)\}\{l\}", body)) == {str(columns)}
    for command in ("toprule", "midrule", "bottomrule", "end{tabular}", "end{table}"):
        assert f"\\{command}" in body
    plain = re.sub(r"\\[&%$#_{}]|\\[a-z]+\{?|\$\\[a-z]+\$|\\\\", "", body)
    assert not re.search(r"[%#_^~\\λ±–]", plain)
    assert r"29.2 $\pm$ 1.8" in body  # the mean of 28.0 and 30.5 is 29.25
    assert r"Retrieval \& grounding, 100 \% of $\lambda$\_1 \textbackslash{} \#2" in body
    assert r"sco\textasciitilde{}\textasciicircum{}" in body
    assert r"\textbf{35.0}" in body
    assert text.startswith("% Ours: standard on Flickr8k, test.")


def test_latex_groups_the_headings_of_each_direction_and_has_a_label(table):
    lines = table.table().latex().splitlines()
    at = next(at for at, line in enumerate(lines) if r"\multicolumn" in line)
    assert re.findall(r"\\multicolumn\{\d+\}\{c\}\{([a-z ]+)\}", lines[at]) == [
        "sentence retrieval",
        "image retrieval",
    ]
    assert lines[at + 1].count(r"\cmidrule(lr)") == 2
    headings = [each.strip() for each in lines[at + 2].removesuffix(r"\\").split("&")]
    assert headings[0] == "recipe"
    assert "R@1" in headings
    assert not any(heading.startswith(("S ", "I ")) for heading in headings)
    assert rf"\label{{tab:{table.definition.name}}}" in lines


def test_markdown_has_the_headings_as_rows(table):
    text = table.table(names=True).markdown()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].startswith("| **IRMatch** (Ke et al., 2017, table 2) |  |")
    assert lines[-1].startswith("| `sco~^` | – |")
    assert "in the paper" in lines[0]
    assert "in the paper" not in table.table().markdown()
    assert "- Not measured: sco~^.\n" in text


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_is_written(table, tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_table(table, path)
    assert "irmatch-s" in path.read_text(encoding="utf-8")
    if suffix == ".json":
        assert json.loads(path.read_text(encoding="utf-8")) == json.loads(json.dumps(table.to_dict()))


def test_a_table_of_the_papers_alone_is_written_and_what_cannot_be_is_said(table, tmp_path):
    path = tmp_path / "table.md"
    write_table(PaperTable(table.definition, "flickr8k", "test"), path)
    assert sorted(each.name for each in path.parent.iterdir()) == ["table.md"]
    with pytest.raises(SeesayError, match="no such folder"):
        write_table(table, path / "deeper.md")
    with pytest.raises(SeesayError, match=r"plot\.png: the name must end in \.md, \.tex, \.csv, \.json"):
        write_table(table, tmp_path / "plot.png")
