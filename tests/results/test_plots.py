"""Recall by word frequency as a plot."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from seesay.errors import SeesayError
from seesay.results.plots import check_plot, plot_by_frequency
from tests.results.made import k_shot


def test_a_plot_is_a_png_of_k_shot_results(tmp_path: Path) -> None:
    path = tmp_path / "below" / "plot.png"
    check_plot(path, "k-shot")
    plot_by_frequency({"one": k_shot().result, "two": k_shot().result}, path)
    with Image.open(path) as picture:
        assert min(picture.size) > 100
    assert [each.name for each in path.parent.iterdir()] == ["plot.png"]
    with pytest.raises(SeesayError, match="cannot be written"):
        plot_by_frequency({"one": k_shot().result}, path / "deeper.png")


@pytest.mark.parametrize(
    ("name", "protocol", "said"),
    [("p.png", "standard", "--protocol k-shot"), ("p.png", None, "k-shot"), ("p.pdf", "k-shot", "PNG")],
)
def test_what_cannot_be_plotted_is_said_before_anything_is_measured(name, protocol, said) -> None:
    with pytest.raises(SeesayError, match=said):
        check_plot(Path(name), protocol)
