"""The attention explorer: what it refuses, and what it stores."""

import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pytest
from explorer_cases import END, H, L, make_case, sample

from transformer_lab.plots.explorer import ALPHABET, STEPS, attention_explorer, quantise


class Parsed(HTMLParser):
    """The texts of the scripts, and all text outside of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.text, self.inside = [], [], "", ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside != "style":
            self.text += data + " "


def stored(explorer):
    return json.loads(Parsed(explorer.html).scripts[0])


def weights_of(entry, layers, heads, steps):
    """An independent reading of the stored text: base 64, two digits a weight."""
    digits = [ALPHABET.index(letter) for letter in entry["weights"]]
    numbers = np.array(digits[0::2]) * 64 + np.array(digits[1::2])
    return numbers.reshape(layers, heads, len(entry["phones"]), len(entry["letters"])) / steps


# ---- what is refused ----


@pytest.mark.parametrize("shape", [(2, 3, 6, 4), (2, 3, 4), (2, 3, 4, 7), (0, 3, 4, 6)])
def test_a_wrong_shape_is_named(shape):
    weights = np.full(shape, 1 / shape[-1])
    with pytest.raises(ValueError, match="knight: weights must have the shape") as error:
        make_case(weights_LHTS=weights)
    assert "4 phones, 6 letters" in str(error.value)
    assert str(shape) in str(error.value)


def test_a_row_that_does_not_sum_to_one_is_named_with_both_values():
    weights = np.array(make_case().weights_LHTS)
    weights[1, 2, 0] *= 0.93
    with pytest.raises(ValueError) as error:
        make_case(weights_LHTS=weights)
    for part in ("knight", "layer 2", "head 3", "row 1 (N)", "sum to 1", "0.93"):
        assert part in str(error.value)


def test_a_row_within_the_tolerance_is_taken():
    weights = np.array(make_case().weights_LHTS)
    make_case(weights_LHTS=weights * 1.0009)
    with pytest.raises(ValueError, match=r"1\.0011"):
        make_case(weights_LHTS=weights * 1.0011)


def test_nan_and_negative_weights_are_refused():
    weights = np.array(make_case().weights_LHTS)
    weights[0, 0, 3, 2] = np.nan
    with pytest.raises(ValueError, match=r"row 4 \(⟨end⟩\).*nan"):
        make_case(weights_LHTS=weights)
    weights = np.array(make_case().weights_LHTS)
    weights[0, 1, 2, :2] = weights[0, 1, 2, :2].sum() + 0.25, -0.25
    with pytest.raises(ValueError, match=r"head 2, row 3 \(T\).*at least 0; one is -0.25"):
        make_case(weights_LHTS=weights)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phones": ("N", "AY", "T", "T", END)}, "rows must be the greedy answer"),
        ({"phones": ("N", "EH", "T", END)}, "rows must be the greedy answer 'N AY T'"),
        ({"probabilities": np.ones(3)}, "each of the 4 rows needs one probability"),
        ({"probabilities": np.array([0.5, 1.5, 0.5, 0.5])}, "between 0 and 1; got .*1.5"),
        ({"beam": ((("N",), 0.61),)}, "a log probability is at most 0; .*'N' has 0.61"),
        ({"beam": ((("N",), math.nan),)}, "has nan"),
    ],
)
def test_parts_that_do_not_fit_are_named(changes, message):
    if len(changes.get("phones", ())) == 5:
        changes = changes | {"weights_LHTS": np.full((L, H, 5, 6), 1 / 6)}
    with pytest.raises(ValueError, match=message):
        make_case(**changes)


@pytest.mark.parametrize(
    ("cases", "options", "message"),
    [
        ([], {}, "at least 1 word"),
        ([make_case(), make_case()], {}, "'knight' comes twice"),
        ([make_case()], {"start": "psalm"}, "start='psalm' is none of the 1 words"),
        ([make_case()], {"layer": 3}, "layer=3 must lie between 1 and 2"),
        ([make_case()], {"head": 0}, "head=0 must lie between 1 and 3"),
    ],
)
def test_an_impossible_figure_is_refused(cases, options, message):
    with pytest.raises(ValueError, match=message):
        attention_explorer(cases, **options)


def test_words_of_two_models_are_refused():
    other = make_case("psalm", "S AA M", weights_LHTS=np.full((1, 3, 4, 5), 0.2))
    with pytest.raises(ValueError, match=r"knight has \(2, 3\).*psalm has \(1, 3\)"):
        attention_explorer([make_case(), other])


# ---- what is stored ----


def test_quantised_rows_sum_exactly_and_stay_close():
    rng = np.random.default_rng(7)
    weights = rng.dirichlet(np.full(13, 0.3), size=(3, 5, 11))
    weights[0, 0, 0] = np.eye(13)[4]
    weights[0, 0, 1] = 1 / 13
    steps = quantise(weights)
    assert (steps.sum(axis=-1) == STEPS).all() and steps.min() >= 0
    assert np.abs(steps / STEPS - weights).max() < 1 / STEPS
    assert steps[0, 0, 0].tolist() == [STEPS * (s == 4) for s in range(13)]


def test_the_data_survive_the_journey():
    cases = sample()
    data = stored(attention_explorer(cases, start="psalm", layer=2))
    assert (data["layers"], data["heads"], data["layer"], data["head"]) == (L, H, 2, None)
    assert data["start"] == 1
    for case, entry in zip(cases, data["cases"], strict=True):
        weights = weights_of(entry, L, H, data["steps"])
        assert np.abs(weights - case.weights_LHTS).max() < 1 / STEPS
        assert tuple(entry["letters"]) == case.letters
        assert tuple(entry["phones"]) == case.phones
        assert tuple(map(tuple, entry["references"])) == case.references
        assert np.allclose(entry["p"], case.probabilities, atol=1e-5)
        for (phones, p, right), (given, log_p) in zip(entry["beam"], case.beam, strict=True):
            assert tuple(phones) == given and right == (given in case.references)
            assert math.isclose(p, math.exp(log_p), abs_tol=1e-5)
    assert [entry["right"] for entry in data["cases"]] == [True, True, False, True, None, True]


def test_sixty_words_stay_small():
    rng = np.random.default_rng(0)
    cases = []
    for number in range(60):
        S, T = int(rng.integers(4, 15)), int(rng.integers(4, 14))
        word = "abcdefghijklmnop"[:S] + str(number)
        greedy = ("AH",) * (T - 1)
        weights = rng.dirichlet(np.ones(S + 1), size=(3, 4, T))
        beam = ((greedy, -1.0),) * 5
        cases.append(make_case(
            word, " ".join(greedy), beam=beam, letters=(*word[:S], END), weights_LHTS=weights,
        ))  # fmt: skip
    explorer = attention_explorer(cases)
    assert len(Parsed(explorer.html).scripts[0].encode()) < 250_000
    assert repr(explorer) == "Explorer(60 words, 3 layers, 4 heads)"


ODD = ["</script><b>", "<!--<script>", "a&amp;\"'b", "naïve\u2028", "名"]


@pytest.mark.parametrize("word", ODD)
def test_an_odd_word_cannot_leave_its_place(word):
    explorer = attention_explorer([make_case(word, "AH", kind=f"<i>{word}")])
    parsed = Parsed(explorer.html)
    assert parsed.tags.count("script") == 2 and "b" not in parsed.tags and "i" not in parsed.tags
    assert not set("<>&") & set(parsed.scripts[0])
    entry = stored(explorer)["cases"][0]
    assert (entry["word"], entry["kind"]) == (word, f"<i>{word}")
    assert word in parsed.text


def test_an_end_symbol_is_no_letter():
    weights = np.full((L, H, 4, 7), 1 / 7)
    with_end = make_case(letters=(*"knight", END), weights_LHTS=weights)
    assert (with_end.n_letters, make_case().n_letters) == (6, 6)


def test_the_static_figure_says_what_the_model_says():
    case = make_case("nguyen", "N UW EH N", references=(("W", "IH", "N"), ("N", "UW")))
    parsed = Parsed(attention_explorer([case], layer=2)._repr_html_())
    assert "the model says N UW EH N (wrong)" in parsed.text
    assert "the dictionary says W IH N or N UW." in parsed.text
    mean_TS = case.weights_LHTS[1].mean(axis=0)
    numbers = re.findall(r"<td>([\d.]+)</td>", attention_explorer([case], layer=2).html)
    assert numbers == [f"{weight:.2f}" for weight in mean_TS.ravel()]


def test_style_and_script_are_whole_and_name_no_address():
    folder = resources.files("transformer_lab.plots")
    for name in ("explorer.js", "explorer.css"):
        text = folder.joinpath(name).read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 400
        for forbidden in ("</script", "</style", "<!--", "http", "innerHTML", "@import", "url("):
            assert forbidden not in text, (name, forbidden)


def test_the_figure_needs_neither_torch_nor_matplotlib():
    code = (
        "import sys, transformer_lab.plots.explorer as e; "
        "print([m for m in ('torch', 'matplotlib', 'plotly', 'sympy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
