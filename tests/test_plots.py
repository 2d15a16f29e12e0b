"""Maps, curves and inline SVG: what they refuse, what they say, what they leave to the page."""

import re

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from transformer_lab.plots import (
    attention_map,
    inline_svg,
    loss_curve,
    map_in_words,
    save_map,
)

ROWS, COLUMNS = ("N", "AY", "T"), ("k", "n", "i", "g", "h", "t", "s")
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(7), size=3)
SHARP = np.array(
    [[0.03, 0.9, 0.07, 0, 0, 0, 0], [0, 0.2, 0.5, 0.2, 0.1, 0, 0], [0, 0, 0, 0, 0, 1, 0]]
)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_a_map_shows_the_weights_where_they_belong():
    axes = attention_map(WEIGHTS, ROWS, COLUMNS, title="layer 1")
    image = axes.get_images()[0]
    assert np.array_equal(image.get_array(), WEIGHTS)
    assert image.get_clim() == (0, 1)  # maps can be compared
    assert [t.get_text() for t in axes.get_xticklabels()] == list(COLUMNS)
    assert [t.get_text() for t in axes.get_yticklabels()] == list(ROWS)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key (column)", "query (row)")
    assert axes.get_title() == "layer 1"


def test_numbers_stand_in_their_cells():
    axes = attention_map(SHARP, ROWS, COLUMNS)
    found = {tuple(map(round, t.get_position())): t.get_text() for t in axes.texts}
    assert found[(1, 0)] == ".90" and found[(2, 1)] == ".50" and found[(5, 2)] == "1"
    assert len(found) == np.count_nonzero(SHARP)
    assert not attention_map(SHARP, ROWS, COLUMNS, numbers=False).texts


def test_a_map_is_drawn_into_given_axes():
    _, axes = plt.subplots()
    assert attention_map(WEIGHTS, ROWS, COLUMNS, axes) is axes


def test_a_map_in_words_names_the_largest_first():
    lines = map_in_words(SHARP, ROWS, COLUMNS).split("\n")
    assert lines == [
        "N   looks at  n (letter 2) 0.90, i (letter 3) 0.07",
        "AY  looks at  i (letter 3) 0.50, n (letter 2) 0.20, g (letter 4) 0.20, h (letter 5) 0.10",
        "T   looks at  t (letter 6) 1.00",
    ]


@pytest.mark.parametrize("draw", [attention_map, map_in_words])
def test_what_is_no_matrix_of_weights_is_refused(draw):
    scores = WEIGHTS.copy()
    scores[1] *= 1.5
    with pytest.raises(ValueError, match=r"must sum to 1, but row 1 \(AY\) sums to 1\.5000;"):
        draw(scores, ROWS, COLUMNS)
    shape = r"shape is \(7, 3\) and there are 3 queries and 7 keys\."
    with pytest.raises(ValueError, match=shape):
        draw(WEIGHTS.T, ROWS, COLUMNS)
    missing = WEIGHTS.copy()
    missing[2, 3] = np.nan
    with pytest.raises(ValueError, match=r"must sum to 1, but row 2 \(T\) sums to nan"):
        draw(missing, ROWS, COLUMNS)


def test_rounding_of_half_precision_is_no_error():
    attention_map(WEIGHTS.astype(np.float16), ROWS, COLUMNS)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".PDF"])
def test_a_map_is_saved_as_what_its_name_says(tmp_path, suffix):
    path = tmp_path / f"knights{suffix}"
    save_map(path, WEIGHTS, ROWS, COLUMNS, "knights")
    start = path.read_bytes()[:200]
    assert {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix.lower()] in start


def test_other_endings_are_refused(tmp_path):
    path = tmp_path / "map.docx"
    with pytest.raises(ValueError, match=r"end in one of \.png, \.pdf, \.svg, but got .*map\.docx"):
        save_map(path, WEIGHTS, ROWS, COLUMNS)
    assert not path.exists()


RECORDS = [
    {"step": 10, "loss": 3.0},
    {"step": 20, "loss": 2.0, "dev_loss": 2.5},
    {"step": 30, "loss": 1.5},
    {"step": 40, "loss": 1.0, "dev_loss": 1.75},
]


def test_a_loss_curve_shows_every_record():
    axes = loss_curve(RECORDS, baselines={"guessing": 3.7, "letters alone": 2.2}, floor=0.4)
    training, dev, *others = axes.get_lines()
    assert training.get_xydata().tolist() == [[10, 3], [20, 2], [30, 1.5], [40, 1]]
    assert dev.get_xydata().tolist() == [[20, 2.5], [40, 1.75]]
    assert [line.get_ydata()[0] for line in others] == [3.7, 2.2, 0.4]
    names = [t.get_text() for t in axes.get_legend().get_texts()]
    assert len(names) == 5 and "dev" in names[1] and "floor" in names[4]
    assert names[2:4] == ["guessing: 3.700", "letters alone: 2.200"]
    assert len({str(line._dash_pattern) for line in others}) == 3  # told apart by their dashes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "loss (nats a token)")
    assert axes.get_ylim()[0] == 0


def test_a_curve_without_judgements_has_one_line():
    assert len(loss_curve([{"step": 1, "loss": 2.0}]).get_lines()) == 1


def test_a_run_without_records_is_refused():
    with pytest.raises(ValueError, match=r"at least one record, but the run has none yet\."):
        loss_curve([])


def svg_of(alt, seed=0):
    figure, axes = plt.subplots()
    axes.plot(np.random.default_rng(seed).random(5), label="a line")
    axes.set_title("title <&> text")
    axes.legend()
    return inline_svg(figure, alt).svg


def test_inline_svg_has_a_title_that_names_it():
    svg = svg_of('Loss falls & "flattens" <soon>')
    name = re.search(r'<svg role="img" aria-labelledby="([^"]+)"', svg)[1]
    title = re.search(rf'<title id="{name}">(.*?)</title>', svg)[1]
    assert title == "Loss falls &amp; &quot;flattens&quot; &lt;soon&gt;"
    assert svg.startswith("<svg") and svg.rstrip().endswith("</svg>")


def test_inline_svg_is_well_formed_and_keeps_text_as_text():
    from xml.etree import ElementTree

    svg = svg_of("A line.").replace("xlink:", "")
    texts = ["".join(e.itertext()) for e in ElementTree.fromstring(svg).iter() if "text" in e.tag]
    assert "title <&> text" in texts and "a line" in texts


def test_black_ink_is_left_to_the_page():
    svg = svg_of("A line.")
    assert not re.search(r"#000000|#000\b|black|rgb\(0%?, ?0", svg)
    assert svg.count("currentColor") > 10
    assert "#ffffff" not in re.search(r'id="[^"]*patch_1">.*?</g>', svg, re.DOTALL)[0]


def ids_and_references(svg):
    ids = re.findall(r'\bid="([^"]+)"', svg)
    return ids, set(re.findall(r'(?:url\(#|href="#|labelledby=")([^")]+)', svg))


def test_two_figures_of_a_page_share_no_id():
    (one, uses_one), (two, uses_two) = (ids_and_references(svg_of(a)) for a in ("One.", "Two."))
    assert len(set(one)) == len(one) > 5 and len(set(two)) == len(two)
    assert not set(one) & set(two)
    assert uses_one <= set(one) and uses_two <= set(two) and len(uses_one) > 3


def test_the_same_figure_gives_the_same_svg():
    """So a page that is built again is the same page."""
    assert svg_of("One.") == svg_of("One.")
    assert "<metadata>" not in svg_of("One.")


def test_inline_svg_closes_its_figure_and_shows_itself():
    figure, axes = plt.subplots()
    axes.plot([1, 2])
    shown = inline_svg(figure, "Two points.")
    assert not plt.fignum_exists(figure.number)
    assert shown._repr_html_() == f'<div class="td-svg">{shown.svg}</div>'


@pytest.mark.parametrize("alt", ["", "  \n"])
def test_a_figure_without_words_is_refused(alt):
    with pytest.raises(ValueError, match=r"needs a text that says what one sees, but alt is empty"):
        inline_svg(plt.figure(), alt)
