r"""The book's key of letters: which axis is which, and which symbol stands for what.

Two letters are easily misread, so they come first: **K is the width of one head** (not "keys":
the key positions are S), and **V is the vocabulary** (the values have no axis of their own;
they lie along S and are K wide).

A tensor that takes part in the mathematics carries its axes as a suffix: ``scores_BHTS`` has
one score for each sentence of the batch (B), each head (H), each query (T) and each key (S).
The notation page of the book is printed from the two tuples below.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """One axis letter: ``letter`` in code, ``size`` in formulas (TeX), ``meaning`` in words."""

    letter: str
    size: str
    meaning: str


@dataclass(frozen=True)
class Symbol:
    """One symbol of the formulas: ``tex``, its ``space`` (TeX) and its ``meaning`` in words."""

    tex: str
    space: str
    meaning: str


AXES: tuple[Axis, ...] = (
    Axis("B", r"B", "sequences in a batch"),
    Axis("T", r"n", "positions that ask: queries, the target side of a decoder"),
    Axis("S", r"m", "positions that are looked at: keys and values, the source side"),
    Axis("H", r"h", "heads that ask"),
    Axis("G", r"g", "heads of keys and values: H, or a divisor of it where heads share them"),
    Axis("K", r"d_k", "width of one head, for queries, keys and values alike"),
    Axis("D", r"d_{\mathrm{model}}", "width of the model: the vector that stands for one token"),
    Axis("F", r"d_{\mathrm{ff}}", "inner width of the feed-forward layer"),
    Axis("I", r"d_{\mathrm{in}}", "features that go into a linear map"),
    Axis("O", r"d_{\mathrm{out}}", "features that come out of a linear map"),
    Axis("V", r"V", "symbols in the vocabulary, special symbols included"),
    Axis("L", r"L", "layers of a stack"),
    Axis("N", r"N", "rows of any kind laid one after another: tokens of a text, beams of a batch"),
    Axis("W", r"W", "hypotheses of a beam"),
)

SYMBOLS: tuple[Symbol, ...] = (
    Symbol(r"n", r"\mathbb{N}", "number of positions that ask (target length)"),
    Symbol(r"m", r"\mathbb{N}", "number of positions that are looked at (source length)"),
    Symbol(r"d_{\mathrm{model}}", r"\mathbb{N}", "width of the vector that stands for one token"),
    Symbol(r"h", r"\mathbb{N}", "number of heads; a divisor of the model's width"),
    Symbol(
        r"d_k,\ d_v",
        r"\mathbb{N}",
        "width of a query and key, and of a value, within one head; both are "
        "the model's width divided by the number of heads",
    ),
    Symbol(r"d_{\mathrm{ff}}", r"\mathbb{N}", "inner width of the feed-forward layer"),
    Symbol(r"V", r"\mathbb{N}", "size of the vocabulary"),
    Symbol(r"L", r"\mathbb{N}", "number of layers in a stack"),
    Symbol(r"X", r"\mathbb{R}^{n\times d_{\mathrm{model}}}", "a sequence: one row for each token"),
    Symbol(r"Q", r"\mathbb{R}^{n\times d_k}", "queries, one row for each position that asks"),
    Symbol(r"K", r"\mathbb{R}^{m\times d_k}", "keys, one row for each position looked at"),
    Symbol(r"V", r"\mathbb{R}^{m\times d_v}", "values, one row for each position looked at"),
    Symbol(
        r"W_Q,\ W_K,\ W_V",
        r"\mathbb{R}^{d_{\mathrm{model}}\times d_k}",
        "projections of one head; rows are tokens, so a projection stands on the right",
    ),
    Symbol(
        r"W_O",
        r"\mathbb{R}^{h d_v\times d_{\mathrm{model}}}",
        "output projection of the joined heads",
    ),
    Symbol(
        r"S",
        r"\mathbb{R}^{n\times m}",
        "scores: query times key, divided by the root of the head's width",
    ),
    Symbol(
        r"A",
        r"[0,1]^{n\times m}",
        "attention weights: softmax of the scores along each row; every row sums to 1",
    ),
    Symbol(r"O", r"\mathbb{R}^{n\times d_v}", "output of attention: values mixed by the weights"),
    Symbol(
        r"\bar{X}",
        r"\text{as } X",
        "gradient of the loss by X: one slope for each entry, so the shape of X",
    ),
    Symbol(
        r"J",
        r"\mathbb{R}^{n\times n}",
        "Jacobian of the softmax: slope of weight i by score j",
    ),
    Symbol(
        r"a,\ a_i", r"[0,1]^{1\times n}", "one row of weights, the softmax of a row of scores z"
    ),
    Symbol(r"g", r"\mathbb{R}_{\ge 0}", "gap between two scores of a row"),
    Symbol(r"\delta_{ij}", r"\{0, 1\}", "Kronecker's delta: 1 where i = j, else 0"),
    Symbol(
        r"\operatorname{diag}(a)",
        r"\mathbb{R}^{n\times n}",
        "the matrix with the row a on its diagonal and 0 elsewhere",
    ),
    Symbol(
        r"\mathbb{E}[x],\ \operatorname{Var}[x]",
        r"\mathbb{R}",
        "expectation and variance of a random number",
    ),
    Symbol(
        r"\mu^q,\ C^q",
        r"\mathbb{R}^{1\times d_k},\ \mathbb{R}^{d_k\times d_k}",
        "means and covariances of the entries of a query (of a key: with k above)",
    ),
    Symbol(r"\rho", r"[-1,1]", "correlation of two entries"),
    Symbol(r"\kappa", r"\mathbb{R}_{\ge 1}", "fourth moment of an entry of mean 0 and variance 1"),
    Symbol(r"R", r"\mathbb{R}^{n\times m}", "what a scheme of positions adds to the scores"),
    Symbol(
        r"\mu,\ \sigma^2",
        r"\mathbb{R}",
        "mean and variance of one token's features in layer norm (divided by d, not d − 1)",
    ),
    Symbol(
        r"\gamma,\ \beta",
        r"\mathbb{R}^{d_{\mathrm{model}}}",
        "trained gain and shift of layer norm",
    ),
    Symbol(r"x,\ y", r"\text{sequences}", "source (here: letters) and target (here: phonemes)"),
    Symbol(r"p(y\mid x)", r"[0,1]", "probability the model gives a target, given the source"),
    Symbol(
        r"z",
        r"\mathbb{R}^{V}",
        "logits: the numbers the softmax turns into probabilities; also one row of scores",
    ),
    Symbol(
        r"T,\ \tau",
        r"\mathbb{R}_{>0}",
        "temperature: logits (T) or scores (τ) are divided by it before the softmax",
    ),
    Symbol(r"k", r"\mathbb{N}", "top-k: how many of the likeliest symbols may be drawn"),
    Symbol(r"p", r"(0,1]", "top-p: the mass that the likeliest symbols must reach together"),
    Symbol(r"\varepsilon", r"\mathbb{R}_{>0}", "small constant inside the root of layer norm"),
    Symbol(r"\alpha", r"[0,1)", "label smoothing: the share of probability spread evenly"),
    Symbol(r"\eta_t", r"\mathbb{R}_{\ge 0}", "learning rate of step t"),
)


def axes_table() -> str:
    """The axis letters as a Markdown table (letter in code, size in formulas, meaning)."""
    rows = ["| axis | size | meaning |", "| --- | --- | --- |"]
    rows += [f"| `{a.letter}` | ${a.size}$ | {a.meaning} |" for a in AXES]
    return "\n".join(rows)


def symbols_table() -> str:
    """The symbols of the formulas as a Markdown table (symbol, space, meaning)."""
    rows = ["| symbol | space | meaning |", "| --- | --- | --- |"]
    rows += [f"| ${s.tex}$ | ${s.space}$ | {s.meaning} |" for s in SYMBOLS]
    return "\n".join(rows)
