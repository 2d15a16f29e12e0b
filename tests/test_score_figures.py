"""The bars at a temperature and the output in the hull: what they refuse, compute and store."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from importlib import resources
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_figure_cases import LABELS, SCORES, VALUES, make_query, queries

from transformer_lab.plots import LiveFigure, hull_figure, temperature_bars
from transformer_lab.plots.bars import readings
from transformer_lab.plots.hull import attend, remaining
from transformer_lab.plots.hull_drawing import ACROSS, TOP, Plane, convex_hull
from transformer_lab.plots.widgets import fixed, json_for_script, small, tau_text, weight_text


def stored(figure):
    """The data of a figure as its script reads them."""
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', figure.html, re.S)
    return json.loads(text)


def tables(figure):
    """The rows of every table, as texts."""
    found = []
    for text in re.findall(r"<table.*?</table>", figure.html, re.S):
        rows = re.findall(r"<tr>(.*?)</tr>", text, re.S)
        cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.S) for row in rows]
        found.append([[unescape(re.sub("<.*?>", "", cell)) for cell in row] for row in cells])
    return found


def closed_form(a):
    """J = diag(a) − a aᵀ by numpy, without any care for small differences."""
    return np.diag(a) - np.outer(a, a)


# ---- what is refused ----


@pytest.mark.plain
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": " "}, "needs a name .* has ' '"),
        ({"keys": (), "raw": ()}, r"mat: a query needs 1 to 64 keys.* has 0"),
        ({"keys": ("k",) * 65, "raw": np.zeros(65)}, "1 to 64 keys.* has 65"),
        ({"raw": np.zeros(5)}, r"6 keys a shape of \(6,\); got the shape \(5,\)"),
        ({"raw": np.zeros((1, 6))}, r"got the shape \(1, 6\)"),
        ({"raw": [0, 1, math.inf, 0, 0, 0]}, r"finite .*, and the one of key 3 \(sat\) is inf"),
        ({"raw": [0, 1, 2, 0, 0, math.nan]}, r"key 6 \(mat\) is nan"),
        ({"raw": [0, -2e6, 2, 0, 0, 0]}, r"between ±1e\+06, and .* \(cat\) is -2000000.0"),
        ({"d_k": 0}, "at least 1, and is 0"),
        ({"d_k": 2.5}, "whole number .* is 2.5"),
        ({"d_k": True}, "is True"),
    ],
)
def test_a_query_whose_parts_do_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(make_query(), **changes)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("cases", "options", "message"),
    [
        ([], {}, "at least 1 query and got 0"),
        ([make_query(), make_query()], {}, "'mat' comes twice"),
        ([make_query()], {"start": "cat"}, "start='cat' is none of the 1 names: mat"),
        ([make_query()], {"tau": 0.0}, r"tau=0.0 must lie between 0.25 and 4 d_k = 256"),
        ([make_query()], {"tau": 257.0}, "tau=257.0"),
        ([make_query()], {"tau": math.nan}, "tau=nan"),
    ],
)
def test_impossible_bars_are_refused(cases, options, message):
    with pytest.raises(ValueError, match=message):
        temperature_bars(cases, **options)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("values", "scores", "labels", "message"),
    [
        (np.zeros((4, 3)), np.zeros(4), None, r"shape \(S, 2\), and have \(4, 3\)"),
        (np.zeros(4), np.zeros(4), None, r"have \(4,\)"),
        (np.zeros((0, 2)), np.zeros(0), None, "3 to 8 values.* got 0"),
        (VALUES[:2], SCORES[:2], None, "got 2"),
        (np.arange(18.0).reshape(9, 2), np.zeros(9), None, "got 9"),
        (VALUES, SCORES[:5], None, r"scores of shape \(5,\) and 6 labels"),
        (VALUES, SCORES, LABELS[:4], r"scores of shape \(6,\) and 4 labels"),
        (VALUES, [0, 0, math.nan, 0, 0, 0], LABELS, "the score of 'sat' is nan"),
        ([[0, 0], [1, math.inf], [2, 3]], [0, 0, 0], None, r"the value of 'B' is \[1.0, inf\]"),
        (VALUES, [0, 0, 0, 0, 0, 1e7], LABELS, r"between ±1e\+06, and the score of 'mat' is 1"),
        (VALUES, SCORES, ["a", "b", "c", "d", "e", "b"], "label 6 is 'b'"),
        (VALUES, SCORES, ["a", "", "c", "d", "e", "f"], "label 2 is ''"),
        ([[0, 0], [1, 0], [0, 0]], [0, 0, 0], None, "'A' and 'C' are 0 apart"),
        ([[0, 0], [1, 0], [1.01, 0]], [0, 0, 0], None, "'B' and 'C' are 0.01 apart"),
    ],
)
def test_an_impossible_hull_is_refused(values, scores, labels, message):
    with pytest.raises(ValueError, match=message):
        hull_figure(values, scores, labels)


@pytest.mark.plain
def test_a_key_that_is_not_there_cannot_be_chosen():
    for chosen in (-1, 6):
        with pytest.raises(ValueError, match=f"chosen={chosen} must be .* 0 to 5"):
            hull_figure(VALUES, SCORES, chosen=chosen)


# ---- what is computed ----


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=9), st.floats(0.25, 64))
def test_readings_agree_with_the_definitions(raw, tau):
    query = make_query(keys=[str(i) for i in range(len(raw))], raw=np.array(raw))
    a, J = query.weights(tau), closed_form(query.weights(tau))
    said = readings(a)
    assert math.isclose(a.sum(), 1, abs_tol=1e-12) and said.largest == a.max()
    entropy = -sum(x * math.log(x) for x in a if x > 0)
    assert math.isclose(said.entropy, entropy, abs_tol=1e-12)
    assert len(raw) == 1 or math.isclose(said.share, entropy / math.log(len(raw)), abs_tol=1e-12)
    assert math.isclose(said.jacobian_max, np.abs(J).max(), abs_tol=1e-12)
    assert math.isclose(said.jacobian_norm, np.linalg.norm(J), abs_tol=1e-12)
    assert said.jacobian_max <= 0.25 + 1e-15


def test_a_saturated_softmax_keeps_its_digits():
    """1 − a_1 would be 0 or noise here; the sum of the others is not."""
    a = make_query(keys="ab", raw=np.array([40.0, 0.0])).weights(1.0)
    assert 1 - a[0] == 0
    exact = math.exp(-40)
    assert math.isclose(readings(a).jacobian_max, exact, rel_tol=1e-12)
    assert math.isclose(readings(a).jacobian_norm, 2 * exact, rel_tol=1e-12)
    assert math.isnan(readings(np.ones(1)).share)


def test_adding_to_a_score_moves_the_output_on_a_straight_line():
    rng = np.random.default_rng(0)
    for _ in range(50):
        S, tau = int(rng.integers(3, 9)), rng.uniform(0.3, 4)
        values, scores, j = rng.normal(size=(S, 2)), rng.normal(size=S), int(rng.integers(S))
        weights, output = attend(values, scores, tau)
        c = rng.uniform(-6, 6)
        moved = attend(values, scores, tau, c * np.eye(S)[j])[1]
        line = values[j] + (output - values[j]) * remaining(weights[j], c)
        assert np.abs(moved - line).max() < 1e-12


@given(st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), min_size=3, max_size=8))
def test_the_hull_goes_round_all_points_counter_clockwise(points):
    points = np.unique(np.array(points, dtype=float), axis=0)
    if len(points) < 3:
        return
    corners = points[convex_hull(points)]

    def cross(u, v):
        return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]

    if len(corners) == 2:  # all on one line
        assert np.allclose(cross(points - corners[0], corners[1] - corners[0]), 0)
        return
    for a, b in pairwise([*corners, corners[0]]):
        assert (cross(b - a, points - a) >= 0).all()
    turns = [cross(corners[i - 1] - corners[i - 2], corners[i] - corners[i - 1])
             for i in range(len(corners))]  # fmt: skip
    assert min(turns) > 0  # a corner is a corner


@pytest.mark.parametrize("scale", [1e-6, 1.0, 3e5])
@pytest.mark.parametrize("stretch", [(1, 1), (1, 0), (0, 1), (1, 0.05), (0.05, 1)])
def test_every_value_stands_inside_of_the_frame(scale, stretch):
    values = (VALUES - 40) * scale * np.array(stretch)
    plane = Plane.of(values)
    for x, y in map(plane.at, values):
        assert plane.left + 30 < x < plane.left + ACROSS - 30
        assert TOP + 30 < y < TOP + plane.height - 30
    for low, high in (plane.span_x, plane.span_y):
        texts = [text for _, text in plane.ticks(low, high)]
        assert 2 <= len(texts) <= 9 and len(set(texts)) == len(texts)


def test_numbers_are_printed_with_sensible_digits():
    assert [fixed(x, 2) for x in (-1.255, 0.0, -0.001, 12.0)] == ["−1.25", "0.00", "0.00", "12.00"]
    printed = [weight_text(a) for a in (0.0, 1e-9, 0.0005, 0.25, 0.9994, 0.9996, 1.0)]
    assert printed == ["0.000", "<0.001", "0.001", "0.250", "0.999", ">0.999", "1.000"]
    printed = [small(x) for x in (0.0, 0.25, 0.00123, 9.99e-4, 4.2e-18)]
    assert printed == ["0", "0.250", "0.00123", "1.0 × 10⁻³", "4.2 × 10⁻¹⁸"]
    printed = [tau_text(t) for t in (0.25, 1.0, math.sqrt(48), 22.627, 64.0, 1234.5)]
    assert printed == ["0.25", "1", "6.93", "22.6", "64", "1234"]


# ---- what stands in the figure ----


def test_the_bars_without_javascript_hold_every_query_at_its_stops():
    figure = temperature_bars(queries(), start="narrow")
    found = tables(figure)
    assert [t[0][2:] for t in found] == [
        ["τ = 1", "τ = √dk = 1.41", "τ = dk = 2"],
        ["τ = 1", "τ = √dk = 8", "τ = dk = 64"],
        ["τ = 1", "τ = √dk = 22.6", "τ = dk = 512"],
        ["τ = 1 = dk"],
        ["τ = 1", "τ = √dk = 4", "τ = dk = 16"],
    ]
    query = queries()[0]
    for column, tau in enumerate((1.0, 8.0, 64.0), start=2):
        powers = np.exp(query.raw / tau)
        a = powers / powers.sum()
        J = np.abs(closed_form(a))
        entropy = -(a * np.log(a)).sum()
        assert [row[column] for row in found[1][1:]] == [
            *map(weight_text, a), weight_text(a.max()), f"{entropy:.3f}",
            f"{100 * entropy / math.log(6):.1f} %", small(J.max()), small(np.linalg.norm(J)),
        ]  # fmt: skip
    assert [row[0] for row in found[1][1:7]] == list(query.keys)
    assert "–" in [row[2] for row in found[4]]  # one key: no share of ln 1


def test_a_temperature_between_the_stops_has_its_column():
    (found,) = tables(temperature_bars([make_query()], tau=3.5))
    assert found[0][2:] == ["τ = 1", "τ = 3.5", "τ = √dk = 8", "τ = dk = 64"]


def test_the_hull_without_javascript_holds_the_start_and_the_way():
    figure = hull_figure(VALUES, SCORES, LABELS, chosen=2)
    start, way = tables(figure)
    a, o = attend(VALUES, SCORES)
    assert [row[3] for row in start[1:]] == [weight_text(x) for x in a]
    assert [row[0] for row in start[1:]] == LABELS
    assert f"({o[0]:.2f}, {o[1]:.2f})" in figure.html
    for row, c in zip(way[1:], (-6.0, -3.0, 0.0, 3.0, 6.0), strict=True):
        b, moved = attend(VALUES, SCORES, 1.0, np.array([0, 0, c, 0, 0, 0]))
        share = np.linalg.norm(moved - VALUES[2]) / np.linalg.norm(o - VALUES[2])
        assert row == [
            f"{c:+.0f}".replace("-", "−").replace("+0", "0"), weight_text(b[2]),
            f"({fixed(moved[0], 2)}, {fixed(moved[1], 2)})", f"{100 * share:.1f} %",
        ]  # fmt: skip
    for name in ("first coordinate of the value", "second coordinate of the value"):
        assert f">{name}</text>" in figure.html


def test_the_data_survive_the_journey_to_the_last_digit():
    for query, entry in zip(queries(), stored(temperature_bars(queries()))["queries"], strict=True):
        assert entry["raw"] == list(query.raw) and tuple(entry["keys"]) == query.keys
        assert entry["dk"] == query.d_k and [tuple(stop) for stop in entry["stops"]] == list(
            query.stops
        )
    data = stored(hull_figure(VALUES, SCORES, LABELS))
    assert np.array_equal(data["values"], VALUES) and np.array_equal(data["scores"], SCORES)


@pytest.mark.parametrize("text", ["</script><b>", "<!--<script>", "a&amp;\"'b", "naïve\u2028"])
def test_an_odd_text_cannot_leave_its_place(text):
    bars = temperature_bars([make_query(f"n {text}", keys=[text] * 6)], caption=text)
    hull = hull_figure(VALUES, SCORES, [text, *LABELS[1:]], caption=text)
    for figure in (bars, hull):
        assert isinstance(figure, LiveFigure) and figure.html.count("<script") == 3
        assert figure.html.count("</script>") == 3 and "<b>" not in figure.html
    assert stored(bars)["queries"][0]["keys"] == [text] * 6
    assert stored(hull)["labels"][0] == text
    assert not set("<>&") & set(json_for_script({"text": text}))


def test_the_html_has_no_ids_and_is_shown_by_jupyter():
    for figure, summary in (
        (temperature_bars(queries()), "Weights at a temperature of your choice (5 queries)"),
        (hull_figure(VALUES, SCORES), "The output in the convex hull of 6 values"),
    ):
        static = figure.html.split('<div class="tdw-static">')[1].split("<script")[0]
        assert not re.search(r"\sid=", static)
        assert figure._repr_html_() == figure.html and repr(figure) == summary


def test_styles_and_scripts_are_whole_and_name_no_address():
    folder = resources.files("transformer_lab.plots")
    for stem in ("widgets", "bars", "hull"):
        for suffix in ("js", "css"):
            text = folder.joinpath(f"{stem}.{suffix}").read_text(encoding="utf-8")
            for no in ("</script", "</style", "<!--", "http", "innerHTML", "@import", "url("):
                assert no not in text, (stem, suffix, no)


def test_the_figures_need_neither_torch_nor_matplotlib():
    code = (
        "import sys; sys.modules['torch'] = None; "
        "from transformer_lab.plots import Query, hull_figure, temperature_bars; "
        "temperature_bars([Query('n', ('k',), [1.0], 4)]); "
        "hull_figure([[0, 0], [1, 0], [0, 1]], [0, 0, 0]); "
        "print([m for m in ('matplotlib', 'plotly', 'sympy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
