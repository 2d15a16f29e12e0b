r"""The attention explorer: words, what the model says, and where it looks while it says it.

    A = softmax(Q K^T / sqrt(d_k)),  one matrix per layer and head; A[t, s] >= 0, sum_s A[t, s] = 1

Row t is the query of the t-th phone, column s the key of the s-th letter. This file turns such
matrices into one self-contained HTML figure: data as JSON, a table that can be read without
JavaScript, the style (explorer.css) and the script (explorer.js). It needs no kernel, no network.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from math import exp

import numpy as np

STEPS = 4000  # a weight is stored as a whole number of 1/4000, two characters each
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
ROW_TOLERANCE = 1e-3

CAPTION = (
    "Each row is a phoneme the model wrote. The cells of a row show how it shared its attention "
    "among the letters while it wrote that phoneme: they sum to 1. The colour scale is fixed, "
    "0 to 1."
)


@dataclass(frozen=True, eq=False)
class Case:
    """One word: its letters, the right answers, the model's answers, its cross-attention.

    word, kind      the word, and the group of the list it stands in ("silent letters")
    letters         S keys: the columns; an end symbol may follow the word's letters
    references      the dictionary's pronunciations; empty if the word is in no dictionary
    greedy          phones of the greedy answer
    beam            answers of beam search, best first, each with its log probability (nats)
    phones          T queries: the rows; the greedy answer, then the end symbol if it was written
    probabilities   T numbers: the probability the model gave to each row's symbol
    weights_LHTS    attention weights, layers x heads x T x S, every row summing to 1

    Raises ValueError if the parts do not fit together or a row of weights does not sum to 1.
    """

    word: str
    kind: str
    letters: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    greedy: tuple[str, ...]
    beam: tuple[tuple[tuple[str, ...], float], ...]
    phones: tuple[str, ...]
    probabilities: Sequence[float] | np.ndarray
    weights_LHTS: np.ndarray

    def __post_init__(self) -> None:
        shape, T, S = np.shape(self.weights_LHTS), len(self.phones), len(self.letters)
        if len(shape) != 4 or 0 in shape or shape[2:] != (T, S):
            raise ValueError(
                f"{self.word}: weights must have the shape (layers, heads, {T} phones, "
                f"{S} letters), none of them 0, and have {shape}."
            )
        if self.phones[: len(self.greedy)] != self.greedy or T > len(self.greedy) + 1:
            raise ValueError(
                f"{self.word}: the rows must be the greedy answer {' '.join(self.greedy)!r} and "
                f"at most one end symbol, and are {' '.join(self.phones)!r}."
            )
        given = np.asarray(self.probabilities, dtype=float)
        if given.shape != (T,) or not np.all((given >= 0) & (given <= 1 + 1e-6)):
            raise ValueError(
                f"{self.word}: each of the {T} rows needs one probability between 0 and 1; "
                f"got {np.round(given, 4).tolist()}."
            )
        for answer, log_probability in self.beam:
            if not log_probability <= 1e-6:
                raise ValueError(
                    f"{self.word}: a log probability is at most 0; the beam's answer "
                    f"{' '.join(answer)!r} has {log_probability:.4g}."
                )
        self._check_rows()

    def _check_rows(self) -> None:
        weights_LHTS = np.asarray(self.weights_LHTS, dtype=float)
        sums_LHT = weights_LHTS.sum(axis=-1)
        wrong_LHT = ~(np.abs(sums_LHT - 1) <= ROW_TOLERANCE)  # so that NaN is wrong too
        negative_LHT = (weights_LHTS < 0).any(axis=-1)
        for layer, head, row in np.argwhere(wrong_LHT | negative_LHT):
            place = f"{self.word}, layer {layer + 1}, head {head + 1}, row {row + 1}"
            place += f" ({self.phones[row]})"
            if wrong_LHT[layer, head, row]:
                raise ValueError(
                    f"{place}: attention weights must sum to 1 within {ROW_TOLERANCE:g}, and sum "
                    f"to {sums_LHT[layer, head, row]:.6g}. Pass the softmax's output, not scores."
                )
            least = weights_LHTS[layer, head, row].min()
            raise ValueError(f"{place}: attention weights are at least 0; one is {least:.6g}.")

    @property
    def right(self) -> bool | None:
        """Is the greedy answer one of the references? None if there is no reference."""
        return self.greedy in self.references if self.references else None

    @property
    def n_letters(self) -> int:
        """How many columns are letters: all, or all but an end symbol after the word."""
        return len(self.letters) - ("".join(self.letters[:-1]) == self.word)


@dataclass(frozen=True)
class Explorer:
    """A figure for Jupyter and the book: shown by its HTML, printed by its summary."""

    html: str
    summary: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.summary


def attention_explorer(
    cases: Sequence[Case],
    *,
    start: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    caption: str = CAPTION,
    formula_html: str | None = None,
) -> Explorer:
    """The interactive figure of the cases, grouped by kind in the order in which kinds appear.

    start           the word shown first (the first case if None)
    layer, head     the layer and head shown first, counted from 1 (None: the mean)
    caption         plain text below the figure
    formula_html    HTML (trusted) set above the map, or None: the page itself shows the formula

    Raises ValueError if there is no case, a word comes twice, the numbers of layers and heads
    differ between words, or start, layer, head name something that is not there.
    """
    cases = list(cases)
    words = [case.word for case in cases]
    if not cases:
        raise ValueError("The explorer needs at least 1 word and got 0; pass a list of cases.")
    for word in words:
        if words.count(word) > 1:
            raise ValueError(f"Each word may stand once in the list; {word!r} comes twice.")
    L, H = cases[0].weights_LHTS.shape[:2]
    for case in cases:
        if case.weights_LHTS.shape[:2] != (L, H):
            raise ValueError(
                f"All words need weights of one model: {cases[0].word} has {(L, H)} layers and "
                f"heads, {case.word} has {case.weights_LHTS.shape[:2]}."
            )
    if start is not None and start not in words:
        raise ValueError(f"start={start!r} is none of the {len(words)} words.")
    for name, value, count in (("layer", layer, L), ("head", head, H)):
        if value is not None and not 1 <= value <= count:
            raise ValueError(f"{name}={value} must lie between 1 and {count}, or be None.")

    first = cases[words.index(start) if start is not None else 0]
    data = {
        "layers": L,
        "heads": H,
        "steps": STEPS,
        "layer": layer,
        "head": head,
        "start": words.index(first.word),
        "cases": [_plain(case) for case in cases],
    }
    summary = f"Explorer({len(cases)} words, {L} layers, {H} heads)"
    return Explorer(_figure(data, first, caption, formula_html), summary)


def quantise(weights_LHTS: np.ndarray) -> np.ndarray:
    """Weights as whole numbers of 1/STEPS; every row sums to STEPS exactly.

    Largest remainder: round down, then give the missing steps to the largest rests.
    A stored weight differs from the given one by less than 1/STEPS.
    """
    weights_LHTS = np.asarray(weights_LHTS, dtype=float)
    exact = weights_LHTS / weights_LHTS.sum(axis=-1, keepdims=True) * STEPS
    steps = np.floor(exact).astype(int)
    missing = STEPS - steps.sum(axis=-1, keepdims=True)
    rank = np.argsort(np.argsort(steps - exact, axis=-1, kind="stable"), axis=-1)
    return steps + (rank < missing)


def _plain(case: Case) -> dict:
    """A case as values that JSON can hold; the weights as text, two characters each."""
    steps = quantise(case.weights_LHTS).ravel().tolist()
    return {
        "word": case.word,
        "kind": case.kind,
        "letters": list(case.letters),
        "nLetters": case.n_letters,
        "references": [list(phones) for phones in case.references],
        "greedy": list(case.greedy),
        "right": case.right,
        "beam": [
            [list(phones), round(exp(min(log_p, 0.0)), 5), phones in case.references]
            for phones, log_p in case.beam
        ],
        "phones": list(case.phones),
        "p": [round(min(float(p), 1.0), 5) for p in case.probabilities],
        "weights": "".join(ALPHABET[n >> 6] + ALPHABET[n & 63] for n in steps),
    }


def _json_for_script(data: dict) -> str:
    """JSON that cannot end the <script> it stands in, whatever the words are."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _verdict(case: Case) -> str:
    return {True: "right", False: "wrong", None: "in no dictionary"}[case.right]


def _table(case: Case, layer: int | None, head: int | None) -> str:
    """The first word's map as a table, for readers without JavaScript."""
    weights = np.asarray(case.weights_LHTS, dtype=float)
    weights = weights.mean(axis=0) if layer is None else weights[layer - 1]
    weights = weights.mean(axis=0) if head is None else weights[head - 1]
    which = "mean of the layers" if layer is None else f"layer {layer}"
    which += ", mean of the heads" if head is None else f", head {head}"
    lines = [f"<caption>Attention weights, {which}</caption>"]
    lines.append('<thead><tr><th scope="col">query (row) \\ key (column)</th>')
    lines += [f'<th scope="col">{html.escape(letter)}</th>' for letter in case.letters]
    lines.append("</tr></thead><tbody>")
    for phone, row in zip(case.phones, weights, strict=True):
        cells = "".join(f"<td>{weight:.2f}</td>" for weight in row)
        lines.append(f'<tr><th scope="row">{html.escape(phone)}</th>{cells}</tr>')
    return '<table class="tdx-table">' + "\n".join(lines) + "</tbody></table>"


def _figure(data: dict, first: Case, caption: str, formula_html: str | None) -> str:
    here = resources.files(__package__)
    style = here.joinpath("explorer.css").read_text(encoding="utf-8")
    script = here.joinpath("explorer.js").read_text(encoding="utf-8")
    references = " or ".join(" ".join(phones) for phones in first.references) or "no entry"
    says = (
        f"{first.word}: the model says {' '.join(first.greedy)} ({_verdict(first)}); "
        f"the dictionary says {references}."
    )
    count = len(data["cases"])
    more = f"With JavaScript this figure shows every layer and head; words in its list: {count}."
    formula = f'<div class="tdx-formula">{formula_html}</div>' if formula_html else ""
    return "\n".join(
        [
            '<figure class="td-explorer mathjax_ignore tex2jax_ignore">',
            f"<style>{style}</style>",
            formula,
            f'<div class="tdx-static" role="group" aria-label="{html.escape(first.word)}">'
            f"<p>{html.escape(says)}</p>"
            f'<div class="tdx-scroll" tabindex="0" role="region" aria-label="Attention table">'
            f"{_table(first, data['layer'], data['head'])}</div><p>{more}</p></div>",
            f"<figcaption>{html.escape(caption)}</figcaption>",
            f'<script type="application/json">{_json_for_script(data)}</script>',
            f"<script>{script}</script>",
            "</figure>",
        ]
    )
