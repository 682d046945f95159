"""Claims of order against SciPy's paired t-test, and the block that shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from seesay.errors import SeesayError
from seesay.results.records import Row, record_row
from tests.results.made import cells, row
from tools.documents import refresh
from tools.orders import falls_table, holm, orders_table, paired_order

LOWER, HIGHER = [40.0, 42.5, 41.0, 40.5, 43.0], [41.0, 44.0, 41.5, 42.5, 43.5]


def rows() -> list[Row]:
    made = []
    for recipe, figures in (("vse0", LOWER), ("vse++", HIGHER)):
        made += [row(recipe, seed=s, mR=m, changes=[f"seed={s}"]) for s, m in enumerate(figures, start=1)]
    return [*made, row("vse0", seed=1, mR=99.0, changes=["matcher.dim=5"]), row("vse++", seed=9, mR=0.0)]


def test_it_is_the_paired_t_test_of_runs_with_the_same_seed() -> None:
    found = paired_order(rows(), "vse0", "vse++")
    wanted = stats.ttest_rel(HIGHER, LOWER)
    assert found.mean == pytest.approx(np.mean(HIGHER) - np.mean(LOWER))
    assert found.p == pytest.approx(wanted.pvalue)
    assert found.interval == pytest.approx(tuple(wanted.confidence_interval()))
    assert paired_order(rows(), "vse++", "vse0").mean == pytest.approx(-found.mean)


def test_a_changed_recipe_has_the_change_in_its_name() -> None:
    changed = [
        row("vse0", seed=s, mR=m, changes=["batch_size=250", f"seed={s}"]) for s, m in ((1, 41), (2, 44))
    ]
    found = paired_order([*rows(), *changed], "vse0", "vse0:batch_size=250")
    assert found.differences == pytest.approx((1.0, 1.5))


def test_equal_differences_leave_no_doubt() -> None:
    pairs = [row(name, seed=s, mR=m + s) for name, m in (("vse0", 40), ("vse++", 41)) for s in (1, 2)]
    assert paired_order(pairs, "vse0", "vse++").p == 0
    assert paired_order(pairs, "vse0", "vse0").p == 1


def test_one_pair_is_no_claim() -> None:
    with pytest.raises(SeesayError, match="have 1 seeds in common"):
        paired_order([row("vse0"), row("vse++")], "vse0", "vse++")


def test_several_claims_are_corrected_by_holms_method() -> None:
    # 0.01 × 4; 0.02 × 3; then 0.03 × 2, which is no less; 0.5 once.
    assert holm([0.5, 0.01, 0.03, 0.02]) == pytest.approx([0.5, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([0.04]) == [0.04]


def test_falls_to_another_protocol_and_how_much_more_one_falls() -> None:
    first = {"common": [50.0, 52.0, 51.0], "uncommon": [40.0, 41.0, 39.0]}
    then = {"common": [44.0, 47.0, 44.0], "uncommon": [37.0, 39.0, 35.5]}
    rows = [
        row(recipe, seed=seed, mR=figure, protocol=protocol, changes=[f"seed={seed}"])
        for protocol, figures in (("standard", first), ("coco-5k", then))
        for recipe, each in figures.items()
        for seed, figure in enumerate(each, start=1)
    ]
    _, _, common, uncommon, more = cells(falls_table(rows, ["common", "uncommon"], "coco-5k"))
    assert (common[1], uncommon[1], common[-1]) == ("+6.0", "+2.8", "3")
    interval = stats.ttest_rel([6, 5, 7], [3, 2, 3.5]).confidence_interval()
    assert more[:3] == ["`common` more than `uncommon`", "+3.2", f"{interval[0]:+.1f} to {interval[1]:+.1f}"]
    with pytest.raises(SeesayError, match="'common' has 0 seeds of both protocols"):
        falls_table(rows, ["common"], "3-shot")


def test_a_document_shows_them(tmp_path: Path) -> None:
    for each in rows():
        record_row(tmp_path / "results", "flickr8k", each)
    page = tmp_path / "page.md"
    page.write_text("<!-- table: flickr8k orders=vse0<vse++,vse++<vse0 -->\n\n<!-- /table -->\n")
    assert refresh(page, tmp_path / "results")
    text = page.read_text()
    assert "| `vse0` < `vse++` | +1.1 | +0.3 to +1.9 | 0.020 | 0.039 | 5 of 5 |" in text
    assert "| `vse++` < `vse0` | -1.1 | -1.9 to -0.3 | 0.020 | 0.039 | 0 of 5 |" in text
    assert "| p | Holm, 2 tests | seeds |" in text


def test_the_name_of_an_ensemble_has_spaces(tmp_path: Path) -> None:
    name = "learned of vse0 + vse++"
    ensemble = [row(name, seed=s, mR=m + 2) for s, m in enumerate(HIGHER, start=1)]
    for each in [*rows(), *ensemble]:
        record_row(tmp_path / "results", "flickr8k", each)
    page = tmp_path / "page.md"
    page.write_text(f'<!-- table: flickr8k "orders=vse++<{name}" -->\n\n<!-- /table -->\n')
    assert refresh(page, tmp_path / "results")
    assert f"| `vse++` < `{name}` | +2.0 |" in page.read_text()


def test_a_claim_of_order_names_changed_recipes_as_shipped_tables_do() -> None:
    encoders = "encoders=[{kind: efficientnet-lite0, crops: ten}, efficientnet-lite0-stages]"
    changes = [encoders, "matcher.standardise=power"]
    rows = [row(seed=s, mR=40.0 + s, changes=[f"seed={s}"]) for s in (1, 2)]
    rows += [row(seed=s, mR=43.0 + s, changes=[*changes, f"seed={s}"]) for s in (1, 2)]
    rows += [row(seed=s, mR=90.0, changes=["batch_size=7", f"seed={s}"]) for s in (1, 2)]
    line = cells(orders_table(rows, [("irmatch-s", "irmatch-s-stages")]))[2]
    assert line[:2] == ["`irmatch-s` < `irmatch-s-stages`", "+3.0"]
    assert line[5] == "2 of 2"


def test_what_the_papers_print_stands_beside_a_claim_of_order() -> None:
    def rows_of(recipe, system, base, **more):
        return [
            row(recipe, system=system, seed=s, mR=base + s, changes=[f"seed={s}"], **more) for s in (1, 2)
        ]

    rows = rows_of("sco-ctx", "ctx", 50.0) + rows_of("sco-full", "cnp + ctx + gen", 51.0)
    rows += rows_of("irmatch-s", "IRMatchS", 52.0)
    claims = [("sco-ctx", "sco-full"), ("sco-full", "sco-ctx"), ("sco-ctx", "irmatch-s")]
    head, _, up, down, elsewhere = cells(orders_table(rows, claims, beside="flickr30k"))
    assert head[-1] == "printed"
    assert (up[1], up[-1]) == ("+1.0", "+8.5")  # table 2 of SCO prints 53.8 and 62.3
    assert (down[1], down[-1]) == ("-1.0", "-8.5")
    assert elsewhere[-1] == "–"  # no paper compares these


MEANS = (("vse0", 30.0, 40.0), ("vse++", 20.0, 41.0))


def test_each_of_several_metrics_is_corrected_by_itself() -> None:
    rows = [row(name, first + s * s, seed=s, mR=m * s) for name, first, m in MEANS for s in (1, 2)]
    claims = [("vse0", "vse++"), ("vse++", "vse0")]
    alone = {metric: cells(orders_table(rows, claims, metrics=metric))[2:] for metric in ("mR", "S R@1")}
    head, _, *lines = cells(orders_table(rows, claims, metrics="mR,S R@1"))
    assert head[:3] == ["claim", "metric", "difference"]
    assert lines == [[each[0], metric, *each[1:]] for metric, found in alone.items() for each in found]
