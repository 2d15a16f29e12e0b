"""Plotly figures in a page: what they hold, what they refuse; and the figure of score growth."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from transformer_lab.attention.growth import score_growth_data
from transformer_lab.plots import View, plotly_page, score_growth
from transformer_lab.plots.plotly_page import FIRST, INK, RULE, SECOND

WIDTHS, KEYS, DRAWS = (4, 32, 256), 11, 3


def view(label="one", **changes):
    parts = {
        "traces": [{"type": "scatter", "x": [1, 2], "y": [3, 4]}],
        "alt": f"A line of {label}.",
        "says": f"It rises: {label}.",
        "table": [["x", "y"], ["1", "3"], ["2", "4"]],
    }
    return View(label, **(parts | changes))


def data_of(figure):
    text = re.search(r'<script type="application/json">(.*?)</script>', figure.html, re.S)[1]
    return json.loads(text)


class Reader(HTMLParser):
    """Tags with their attributes, and the cells of every table."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.tables, self.cell = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.cell = ""

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.tables[-1][-1].append(self.cell)
            self.cell = None

    def find(self, css_class):
        return [a for _, a in self.tags if css_class in (a.get("class") or "").split()]


def test_a_page_needs_nothing_but_plotly_itself():
    figure = plotly_page({}, [view("one"), view("two")], "A caption.", "Which")
    assert not re.search(r"https?://|src=|import\(|fetch\(", figure.html)
    assert "plotly-graph-div" in figure.html  # by that the book knows to serve plotly.js
    assert repr(figure) == "PlotlyPage(one, two)"
    bundle = figure._repr_mimebundle_()
    assert bundle["text/html"] == figure.html
    assert set(bundle) == {"application/vnd.plotly.v1+json", "text/html", "text/plain"}


def test_it_can_be_read_without_javascript_and_without_eyes():
    table = [["x", "y"], ["1", "3 < 4"], ["2", "4"]]
    figure = plotly_page({}, [view("one", table=table), view("two")], "A caption.", "Which")
    page = Reader(figure.html)
    assert page.tables == [table, [["x", "y"], ["1", "3"], ["2", "4"]]]
    (graph,) = page.find("tdp-graph")
    assert (graph["role"], graph["aria-label"]) == ("img", "A line of one.")
    assert "hidden" in graph and "hidden" in page.find("tdp-choice")[0]  # until there is a script
    (numbers,) = page.find("tdp-numbers")
    assert "open" in numbers
    assert [a.get("aria-live") for a in page.find("tdp-says")] == ["polite"]
    radios = [a for tag, a in page.tags if tag == "input"]
    labels = [a["for"] for tag, a in page.tags if tag == "label"]
    assert [a["id"] for a in radios] == labels and len({a["name"] for a in radios}) == 1
    assert ["checked" in a for a in radios] == [True, False]


def test_two_figures_on_a_page_do_not_share_buttons():
    names = [
        Reader(plotly_page({"title": t}, [view("a"), view("b")], "C.", "W").html).tags
        for t in ("one", "two")
    ]
    names = [{a["name"] for tag, a in tags if tag == "input"} for tags in names]
    assert len(names[0] | names[1]) == 2


def test_one_view_needs_no_buttons():
    figure = plotly_page({}, [view()], "A caption.")
    assert "fieldset" not in re.sub(r"<style>.*?</style>", "", figure.html, flags=re.S)
    assert "updatemenus" not in figure.notebook["layout"]


def test_words_cannot_end_the_script():
    figure = plotly_page({}, [view(alt="</script><b>&", says="<i>")], "C </figure>.")
    assert figure.html.count("</script>") == 2 and figure.html.count("</figure>") == 1
    assert data_of(figure)["views"][0]["alt"] == "</script><b>&"


def test_a_notebook_shows_one_view_at_a_time():
    views = [view("one"), view("two", traces=[{"type": "scatter", "y": [1]}] * 3)]
    figure = plotly_page({"margin": {"l": 7}}, views, "A caption.", "Which").notebook
    assert [trace["visible"] for trace in figure["data"]] == [True, False, False, False]
    (menu,) = figure["layout"]["updatemenus"]
    shown = [button["args"][1] for button in menu["buttons"]]
    assert shown == [[True, False, False, False], [False, True, True, True]]
    assert figure["layout"]["margin"]["l"] == 7


@pytest.mark.parametrize("colour", [INK, RULE, FIRST, SECOND])
def test_the_style_sheet_knows_every_colour(colour):
    css = plotly_page({}, [view()], "A caption.").html
    rgb = ", ".join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    assert f"rgb({rgb})" in css


@pytest.mark.parametrize(
    ("views", "caption", "choice", "message"),
    [
        ([], "C.", "W", "at least 1 view and got 0"),
        ([view(), view()], "C.", "W", "'one' comes twice"),
        ([view()], " ", "", "needs a caption"),
        ([view(), view("two")], "C.", "", "name for what its buttons choose"),
        ([view(alt="")], "C.", "", "the view 'one' lacks one"),
        ([view(says=" ")], "C.", "", "the view 'one' lacks one"),
        ([view(table=[["x"], ["1", "2"]])], "C.", "", r"2 rows of lengths \[1, 2\]"),
        ([view(table=[["x", "y"]])], "C.", "", r"1 rows of lengths \[2\]"),
    ],
)
def test_what_it_refuses(views, caption, choice, message):
    with pytest.raises(ValueError, match=message):
        plotly_page({}, views, caption, choice)


# ---- score growth ----


@pytest.fixture(scope="module")
def growth():
    return score_growth_data(WIDTHS, KEYS, DRAWS)


@pytest.fixture(scope="module")
def figure(growth):
    return score_growth(growth)


def test_plotly_takes_the_figure(figure):
    import plotly.graph_objects as go

    for shown in data_of(figure)["views"]:
        go.Figure(data=shown["traces"], layout=data_of(figure)["layout"])
    go.Figure(data=figure.notebook["data"], layout=figure.notebook["layout"])


def test_every_curve_stands_in_its_panel(figure, growth):
    for shown, curves in zip(data_of(figure)["views"], growth.values(), strict=True):
        scaled = curves.variance / curves.widths
        expected = [
            ("y", curves.variance), ("y", curves.variance_theory[None]), ("y", scaled),
            ("y", curves.variance_theory[None] / curves.widths), ("y2", curves.entropy),
            ("y2", curves.entropy_scaled), ("y3", curves.norm), ("y3", curves.norm_scaled),
        ]  # fmt: skip
        for trace, (axis, drawn) in zip(shown["traces"], expected, strict=True):
            assert trace["x"] == list(WIDTHS) and trace.get("yaxis", "y") == axis
            y = np.array(trace["y"])
            np.testing.assert_allclose(y, drawn.mean(0), rtol=1e-3, atol=1e-9)
            if "error_y" in trace:
                bars = trace["error_y"]
                for end, reached in (
                    (drawn.max(0), y + bars["array"]), (drawn.min(0), y - bars["arrayminus"]),
                ):  # fmt: skip
                    np.testing.assert_allclose(reached, end, rtol=2e-3, atol=1e-5)


def test_shapes_and_dashes_say_what_colours_say(figure):
    for trace in data_of(figure)["views"][0]["traces"]:
        scaled = trace["line"]["color"] == SECOND
        assert trace["line"]["dash"] == ("dash" if scaled else "solid")
        if "marker" in trace:
            assert trace["marker"] == {
                "color": SECOND if scaled else FIRST, "size": 8,
                "symbol": "square" if scaled else "circle",
            }  # fmt: skip


def test_views_share_axes_that_hold_all_of_them(figure, growth):
    layout = data_of(figure)["layout"]
    low, high = (10**x for x in layout["yaxis"]["range"])
    for curves in growth.values():
        assert low < (curves.variance / curves.widths).min() and curves.variance.max() < high
        assert max(curves.norm.max(), curves.norm_scaled.max()) < layout["yaxis3"]["range"][1]
    assert layout["xaxis"]["type"] == layout["yaxis"]["type"] == "log"
    assert all(layout[axis]["fixedrange"] for axis in ("xaxis", "yaxis", "yaxis2", "yaxis3"))
    assert "ln 11" in layout["annotations"][1]["text"]


def test_the_table_has_the_numbers(figure, growth):
    tables = Reader(figure.html).tables
    for table, curves in zip(tables, growth.values(), strict=True):
        assert [row[0] for row in table[1:]] == [str(width) for width in WIDTHS]
        for i, row in enumerate(table[1:]):
            read = [float(cell.replace(",", "")) for cell in (row[1], *row[3:])]
            assert read == pytest.approx(
                [
                    curves.variance[:, i].mean(), curves.variance_theory[i],
                    curves.variance[:, i].mean() / WIDTHS[i],
                    curves.variance_theory[i] / WIDTHS[i], curves.entropy[:, i].mean(),
                    curves.entropy_scaled[:, i].mean(), curves.norm[:, i].mean(),
                    curves.norm_scaled[:, i].mean(),
                ], rel=0.01, abs=0.006,
            )  # fmt: skip


def test_words_name_the_numbers(figure, growth):
    for shown, curves in zip(data_of(figure)["views"], growth.values(), strict=True):
        assert curves.label in shown["alt"] and shown["says"].startswith(curves.label)
        last = curves.variance.mean(0)[-1]
        assert f"to {last:,.0f}" in shown["says"] and f"to {last:,.0f}" in shown["alt"]


def test_growths_that_do_not_belong_together(growth):
    with pytest.raises(ValueError, match="at least 1 distribution and got 0"):
        score_growth({})
    other = score_growth_data(WIDTHS[:2], KEYS, 1)["normal"]
    with pytest.raises(ValueError, match="first has 3 widths and 11 keys, 'other' has 2 and 11"):
        score_growth({"normal": growth["normal"], "other": other})
