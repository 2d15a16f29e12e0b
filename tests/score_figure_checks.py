"""What the tests of the figures of scores share: finding their numbers, holding them to numpy."""

import math

import numpy as np
from score_figure_cases import LABELS, SCORES, VALUES, queries

from transformer_lab.plots import hull_figure, temperature_bars
from transformer_lab.plots.bars import readings
from transformer_lab.plots.hull import attend
from transformer_lab.plots.widgets import fixed, small, weight_text

TOLERANCE = 1e-9
MOVE = """(node, value) => { node.value = value;
    node.dispatchEvent(new Event('input', { bubbles: true })); }"""


def bars():
    return temperature_bars(queries())


def hull(**options):
    return hull_figure(VALUES, SCORES, LABELS, chosen=2, **options)


def numbers(page, selector, name):
    """A data attribute of every such element, as numbers with all their digits."""
    values = page.locator(selector).evaluate_all(f"nodes => nodes.map(n => n.dataset.{name})")
    return np.array([float(value) for value in values])


def close(seen, exact):
    assert np.shape(seen) == np.shape(exact)
    assert np.abs(np.asarray(seen) - exact).max() < TOLERANCE


def assert_bars(page, query):
    """Every number of the figure is that of numpy, and printed as Python prints it."""
    (tau,) = numbers(page, ".td-bars .tdw-app", "tau")
    raw = np.asarray(query.raw)
    a = np.exp(raw / tau - np.max(raw / tau))
    a /= a.sum()
    J = np.diag(a) - np.outer(a, a)
    close(numbers(page, ".tdb-row[data-weight]", "weight"), a)
    close(numbers(page, ".tdb-row[data-score]", "score"), raw / tau)
    said = readings(a)
    shown = numbers(page, ".tdb-tile b", "value")
    close(shown, [a.max(), said.entropy, np.abs(J).max(), np.linalg.norm(J)])
    assert page.locator(".tdb-tile b").all_text_contents() == [
        weight_text(said.largest), f"{fixed(said.entropy, 3)} nats", small(shown[2]),
        small(shown[3]),
    ]  # fmt: skip
    cells = page.locator(".tdb-row[data-weight] > *").all_text_contents()
    assert cells[0::4] == list(query.keys)
    assert cells[1::4] == [fixed(x, 2) for x in numbers(page, ".tdb-row[data-score]", "score")]
    assert cells[3::4] == [weight_text(x) for x in numbers(page, ".tdb-row[data-weight]", "weight")]
    widths = page.locator(".tdb-bar").evaluate_all(
        "bars => bars.map(b => b.getBoundingClientRect().width / b.parentNode.clientWidth)"
    )
    assert np.abs(np.array(widths) - a).max() < 0.01  # drawn on a scale from 0 to 1, always
    return tau


def assert_hull(page, j, c_S, tau):
    """Numbers and drawing agree with numpy."""
    a, o = attend(VALUES, SCORES, tau, c_S)
    none = np.where(np.arange(6) == j, 0, c_S)
    before, origin = attend(VALUES, SCORES, tau, none)
    close(numbers(page, "tr[data-weight]", "weight"), a)
    close(numbers(page, "tr[data-score]", "score"), SCORES / tau + c_S)
    (app,) = page.locator(".td-hull .tdw-app").evaluate_all("n => n.map(x => ({...x.dataset}))")
    close([float(app[k]) for k in ("tau", "x", "y")], [tau, *o])
    length, left = np.linalg.norm(origin - VALUES[j]), np.linalg.norm(o - VALUES[j])
    close([float(app["length"]), float(app["left"])], [length, left])
    close(float(app["share"]), left / length)
    line = VALUES[j] + (origin - VALUES[j]) / (1 + before[j] * math.expm1(c_S[j]))
    close(o, line)
    far = attend(VALUES, SCORES, tau, np.where(np.arange(6) == j, -800, c_S))[1]
    close([float(app["farX"]), float(app["farY"])], far)
    # the marks stand where the numbers say, the output on the dashed line
    x0, y0, unit = page.evaluate(
        """() => JSON.parse(document.querySelector(
            'figure.td-hull script[type="application/json"]').textContent).plane"""
    )
    live = ".td-hull .tdw-app .tdh-svg"
    place = page.locator(f"{live} .tdh-output").get_attribute("transform")
    seen = np.array([float(n) for n in place.removeprefix("translate(").rstrip(")").split()])
    assert np.abs(seen - [x0 + unit * o[0], y0 - unit * o[1]]).max() < 0.006
    way = page.locator(f"{live} .tdh-way")
    ends = [float(way.get_attribute(name)) for name in ("x1", "y1", "x2", "y2")]
    start, end = np.array(ends[:2]), np.array(ends[2:])
    assert np.abs(end - [x0 + unit * VALUES[j, 0], y0 - unit * VALUES[j, 1]]).max() < 0.006
    u, v = end - start, seen - start
    assert abs(u[0] * v[1] - u[1] * v[0]) / np.linalg.norm(u) < 0.03
    radii = page.locator(f"{live} .tdh-value").evaluate_all("n => n.map(c => c.r.baseVal.value)")
    assert np.abs(np.array(radii) - 3 - 12 * np.sqrt(a)).max() < 0.006
    printed = page.locator(f"{live} tspan[data-i]").all_text_contents()
    assert printed == [weight_text(x) for x in a]
    text = page.locator(".tdh-distance").text_content()
    assert text.startswith(f"Distance to {LABELS[j]}: {fixed(left, 2)}, which is ")
    assert f"({fixed(o[0], 2)}, {fixed(o[1], 2)})" in page.locator(".tdh-said").text_content()
