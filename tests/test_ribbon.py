"""The picture of the cover: bands as wide as the weights, words for who does not see them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import numpy as np
import pytest

from transformer_lab.plots.ribbon import THINNEST, ribbon

SVG = "{http://www.w3.org/2000/svg}"
WEIGHTS_TS = np.array(
    [
        [0.25, 0.75, 0.0, 0.0, 0.0],
        [0.0, 0.125, 0.5, 0.0, 0.375],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ]
)
LETTERS, PHONES = tuple("wrest"), ("R", "EH", "T")


def bands(svg: str) -> list[tuple[float, float, float, float]]:
    """Each band's width at its lower and upper end, and where these ends start."""
    shapes = ElementTree.fromstring(svg).findall(f"{SVG}path")
    ends = []
    for shape in shapes:
        if shape.get("class") in {"td-ribbon-0", "td-ribbon-1"}:
            numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*", shape.get("d"))]
            ends.append((numbers[8], numbers[13] - numbers[0], numbers[6], numbers[0]))
    return ends


def test_a_band_is_as_wide_as_its_weight_at_both_ends():
    weights = WEIGHTS_TS[WEIGHTS_TS >= THINNEST]
    drawn = np.array(bands(ribbon(LETTERS, PHONES, WEIGHTS_TS)))
    assert len(drawn) == len(weights)
    unit = drawn[:, 0].sum() / weights.sum()
    assert unit > 20  # else nobody could see it
    assert np.allclose(drawn[:, 0], unit * weights, atol=0.06)  # one decimal is written
    assert np.allclose(drawn[:, 1], unit * weights, atol=0.11)


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("one_column", [False, True])
def test_bands_lie_side_by_side(end, one_column):
    weights = WEIGHTS_TS
    if one_column:  # all phones look at the same letter: the widest a letter can be
        weights = np.zeros((3, 5))
        weights[:, 1] = 1.0
    drawn = sorted((band[2 + end], band[end]) for band in bands(ribbon(LETTERS, PHONES, weights)))
    for (start, width), (following, _) in pairwise(drawn):
        assert start + width <= following + 0.21  # rounding of two ends
    assert drawn[0][0] >= 0
    assert sum(drawn[-1]) <= 96 * len(LETTERS)
    if one_column and end == 1:
        assert sum(drawn[-1]) - drawn[0][0] < 96  # or it would stand over its neighbours


def test_the_words_say_what_the_picture_shows():
    tree = ElementTree.fromstring(ribbon(LETTERS, PHONES, WEIGHTS_TS))
    title, description = tree.find(f"{SVG}title"), tree.find(f"{SVG}desc")
    assert tree.get("role") == "img"
    assert tree.get("aria-labelledby").split() == [title.get("id"), description.get("id")]
    assert "wrest" in title.text
    assert "R looks most at r (75%)" in description.text
    assert "Least looked at: s, letter 4" in description.text
    assert [t.text for t in tree.findall(f"{SVG}text")] == [*LETTERS, *PHONES]


def test_a_strange_symbol_cannot_leave_its_place():
    svg = ribbon(["<b>", "&"], ['"'], np.array([[0.5, 0.5]]))
    assert ElementTree.fromstring(svg).findall(f"{SVG}text")[0].text == "<b>"
    assert "<b>" not in svg


@pytest.mark.parametrize(
    ("letters", "phones", "weights", "words"),
    [
        ("", ["A"], np.zeros((1, 0)), "0 letters and 1 phones"),
        ("ab", ["A"], np.full((2, 1), 0.5), "transpose"),
        ("ab", ["A"], np.array([[1.5, -0.5]]), "not scores"),
        ("ab", ["A"], np.array([[np.nan, 0.5]]), "not scores"),
        ("ab", ["A"], np.array([[0.9, 0.9]]), "1.800"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_rule(letters, phones, weights, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        ribbon(letters, phones, weights)
