"""Derivations and tiny books for the tests of how derivations are shown."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import sympy as sp

from transformer_lab.derivations import (
    EVALUATED,
    Definition,
    Derivation,
    Step,
    proved_to,
)
from transformer_lab.derivations.expectation import independent_entries, moments
from transformer_lab.derivations.forms import (
    E,
    array,
    derivative,
    index,
    matrix,
    minus,
    over,
    plus,
    size,
    times,
    total,
)

ROOT = Path(__file__).resolve().parents[1]
n, d = size("n d")
i, j, l = index("i j l")  # noqa: E741 - the book's index of a sum
x, y = array("x"), array("y")
q, k = array("q", random=True), array("k", random=True)
mean = sp.Symbol("\\bar{x}", real=True)
MEAN = Definition(mean, over(total(x[l], (l, n)), n))


def eq(left: sp.Basic, right: sp.Basic) -> sp.Eq:
    """A claim that sympy leaves alone."""
    return sp.Eq(left, right, evaluate=False)


LONG = Derivation(
    label="eq-test-long",
    title="The sum of squared deviations, in a formula too wide for its column",
    claim=eq(
        total(sp.Pow(minus(x[l], mean), 2), (l, n)),
        minus(total(sp.Pow(x[l], 2), (l, n)), times(n, sp.Pow(mean, 2))),
    ),
    given=(MEAN,),
    facts=("the numbers $x_1, \\dots, x_n$ may be *any* real numbers",),
    steps=(
        Step(
            total(
                plus(sp.Pow(x[l], 2), times(-1, 2, x[l], mean), sp.Pow(mean, 2)),
                (l, n),
            ),
            "the square of a difference, written out for every term of the sum before anything "
            "is taken together, so that no term is lost on the way",
        ),
        Step(
            plus(
                total(sp.Pow(x[l], 2), (l, n)),
                times(-1, 2, mean, total(x[l], (l, n))),
                total(sp.Pow(mean, 2), (l, n)),
                times(3, mean, total(x[l], (l, n))),
                times(-1, 3, mean, total(x[l], (l, n))),
            ),
            "a sum of sums; $\\bar{x}$ does not depend on $l$",
        ),
        Step(
            minus(total(sp.Pow(x[l], 2), (l, n)), times(n, sp.Pow(mean, 2))),
            "$\\sum_l x_l$ is $n \\bar{x}$",
            proved_to(4),
        ),
    ),
)

INDEPENDENT = independent_entries("independent", "all $q_l$ and $k_l$ are independent")
CENTRED = moments(
    "centred",
    "each has mean 0 and variance 1",
    {q: lambda a: {1: sp.S.Zero, 2: sp.S.One}, k: lambda a: {1: sp.S.Zero, 2: sp.S.One}},
)
dot = total(times(q[l], k[l]), (l, d))
EXPECTED = Derivation(
    label="eq-test-expected",
    title="The mean of a dot product",
    claim=eq(E(dot), sp.S.Zero),
    given=(INDEPENDENT, CENTRED),
    steps=(
        Step(
            total(times(E(q[l]), E(k[l])), (l, d)),
            "the mean of a sum, and of a product of independent ones",
            uses=("independent",),
        ),
        Step(sp.S.Zero, "every mean is 0", EVALUATED, uses=("centred",)),
    ),
)

A, V, O = matrix("A", n, n), matrix("V", n, d), matrix("O", n, d)  # noqa: E741
PRODUCT = Derivation(
    label="eq-test-product",
    title="A product, from whole to entries and back",
    claim=eq(O, sp.MatMul(A, V)),
    ranges=((i, n), (j, d)),
    given=(Definition(array("O")[i, j], total(times(array("A")[i, l], array("V")[l, j]), (l, n))),),
    steps=(
        Step(sp.MatMul(A, V), "what $O$ stands for"),
        Step(total(times(array("A")[i, l], array("V")[l, j]), (l, n)), "one entry"),
        Step(sp.MatMul(A, V), "all entries at once"),
    ),
)

BOUND = Derivation(
    label="eq-test-bound",
    title="A bound with a part of its own",
    claim=sp.Le(sp.Pow(x[i], 2), plus(sp.Pow(x[i], 2), sp.Pow(y[i], 2)), evaluate=False),
    ranges=((i, n),),
    steps=(
        Step(
            plus(sp.Pow(x[i], 2), sp.Pow(y[i], 2)),
            "a square is never negative",
            relation="<=",
            slack=sp.Pow(y[i], 2),
            tex="|x_i|^2 + |y_i|^2",
            reading=lambda v: v["x"][v["i"]] ** 2 + v["y"][v["i"]] ** 2,
        ),
    ),
)

FALSE = Derivation(
    label="eq-test-false",
    title="A slope with a forgotten factor",
    claim=eq(derivative(sp.Pow(x[i], 2), x[i]), x[i]),
    ranges=((i, n),),
    steps=(Step(x[i], "the power rule, badly remembered"),),
)

WEAK = Derivation(
    label="eq-test-weak",
    title="Declared as proved, and not reached",
    claim=eq(times(sp.sin(x[i]), sp.sin(x[i])), minus(1, sp.Pow(sp.cos(x[i]), 2))),
    ranges=((i, n),),
    steps=(Step(minus(1, sp.Pow(sp.cos(x[i]), 2)), "Pythagoras"),),
)

NAMED = replace(PRODUCT, label="eq-attention-weights", title="A label that code bears")
GAPS = replace(LONG, label="eq-test-gaps", title="The same with holes")
CLAIM = replace(EXPECTED, label="eq-test-claim")
RIGHT = (LONG, EXPECTED, PRODUCT, BOUND, NAMED, GAPS, CLAIM)
CASES = {case.label: case for case in (*RIGHT, FALSE, WEAK)}

CONF = """
import sys
sys.path[:0] = {paths!r}
from transformer_lab.derivations import DERIVATIONS
{cases}
project, extensions = "Tiny", {extensions}
myst_enable_extensions = ["colon_fence", "dollarmath"]
html_theme, html_static_path = {theme!r}, {static!r}
html_css_files, language = ["book.css"], "en"
html_context, html_theme_options = {{"default_mode": "auto"}}, {options}
math_eqref_format = "({{number}})"
suppress_warnings = ["myst.domains"]
"""
GRADES = "(grades)=\n# Grades\n\nHow far each line was checked.\n"


def write_book(folder: Path, pages: dict[str, str], *, cases: bool = True, theme: bool = True,
               package: Path = ROOT) -> Path:  # fmt: skip
    """A Sphinx project with these pages, an index, and a page about grades; returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    known = "from derivation_cases import CASES\nDERIVATIONS.update(CASES)" if cases else ""
    options = '{"navbar_persistent": [], "show_toc_level": 2}' if theme else "{}"
    conf = CONF.format(
        paths=[str(package), str(ROOT / "book" / "_ext"), str(ROOT / "tests")],
        cases=known,
        extensions=["myst_parser", "derivation", *(["offline_assets"] if theme else [])],
        theme="sphinx_book_theme" if theme else "basic",
        static=[str(ROOT / "book" / "_static")],
        options=options,
    )
    (folder / "conf.py").write_text(conf, encoding="utf-8")
    names = [*pages, "grades"]
    toc = "\n".join(["# Tiny", "", "```{toctree}", *names, "```", ""])
    for name, text in {**pages, "index": toc, "grades": GRADES}.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def build_book(folder: Path, *, package: Path = ROOT) -> subprocess.CompletedProcess:
    """Build it strictly; the pages are in ``folder/html``."""
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going", "-b", "html",
               str(folder), str(folder / "html")]  # fmt: skip
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(package), "PYTHONUTF8": "1", "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
