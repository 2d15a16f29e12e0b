r"""Lines of a derivation as TeX, from the expressions themselves: a formula is typed once.

Printing keeps the order in which ``plus`` and ``times`` were written. Indices of one letter stand
side by side (:math:`A_{ts}`), a transpose is :math:`A^\top`, a derivative is a fraction.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import sympy as sp
from sympy.printing.latex import LatexPrinter

from .core import Definition, Derivation, Step

RELATIONS = {"=": "=", "<=": r"\le"}


class _Printer(LatexPrinter):
    """sympy's printer with the habits of this book."""

    def __init__(self) -> None:
        super().__init__({"order": "none", "mul_symbol": None, "fold_short_frac": False})

    def _print_Indexed(self, expr: sp.Indexed) -> str:
        indices = [self._print(i) for i in expr.indices]
        short = all(len(i) == 1 for i in indices)
        base = self._print(expr.base)
        below = ("" if short else ", ").join(indices)
        return f"{base}_{{{below}}}"

    def _print_Pow(self, expr: sp.Pow) -> str:
        twice = isinstance(expr.base, sp.Indexed) and "^" in str(expr.base.base)
        spaced = isinstance(expr.base, sp.Symbol) and " " in expr.base.name  # such as q · k
        if (twice or spaced) and expr.exp.is_Integer and expr.exp > 0:
            return f"({self._print(expr.base)})^{{{self._print(expr.exp)}}}"
        return super()._print_Pow(expr)

    def _print_IndexedBase(self, expr: sp.IndexedBase) -> str:
        return str(expr.label)

    _print_RandomBase = _print_SymmetricBase = _print_IndexedBase

    def _print_MatrixSymbol(self, expr: sp.MatrixSymbol) -> str:
        return expr.name

    def _print_Transpose(self, expr: sp.Transpose) -> str:
        return rf"{self.parenthesize(expr.arg, 200)}^{{\top}}"

    def _print_Sum(self, expr: sp.Sum) -> str:
        signs = "".join(
            rf"\sum_{{{self._print(var)}={self._print(low)}}}^{{{self._print(high)}}} "
            for var, low, high in reversed(expr.limits)
        )
        body = self._print(expr.function)
        if isinstance(expr.function, sp.Add):
            body = rf"\left({body}\right)"
        return signs + body

    def _print_Derivative(self, expr: sp.Derivative) -> str:
        below = " ".join(rf"\partial {self._print(x)}" for x in expr.variables)
        f = expr.expr
        if isinstance(f, (sp.Indexed, sp.Symbol)):
            return rf"\frac{{\partial {self._print(f)}}}{{{below}}}"
        text = self._print(f)
        if isinstance(f, (sp.Add, sp.Sum)):
            text = rf"\left({text}\right)"
        return rf"\frac{{\partial}}{{{below}}} {text}"

    def _bracketed(self, name: str, expr: sp.Expr, exp: str | None) -> str:
        raised = "" if exp is None else f"^{{{exp}}}"
        return rf"{name}\left[{self._print(expr.args[0])}\right]{raised}"

    def _print_Mul(self, expr: sp.Mul) -> str:
        first = expr.args[0]
        fraction = isinstance(first, sp.Rational) and not first.is_Integer
        if fraction and any(a.has(sp.Sum) for a in expr.args[1:]):
            rest = expr.args[1] if len(expr.args) == 2 else sp.Mul(*expr.args[1:], evaluate=False)
            text = self._print(rest)
            return f"{self._print(first)} " + (rf"\left({text}\right)" if rest.is_Add else text)
        return super()._print_Mul(expr)

    def _print_E(self, expr: sp.Expr, exp: str | None = None) -> str:
        return self._bracketed(r"\mathbb{E}", expr, exp)

    def _print_Var(self, expr: sp.Expr, exp: str | None = None) -> str:
        return self._bracketed(r"\operatorname{Var}", expr, exp)

    def _print_KroneckerDelta(self, expr: sp.Expr, exp: str | None = None) -> str:
        text = rf"\delta_{{{''.join(self._print(a) for a in expr.args)}}}"
        return text if exp is None else f"{text}^{{{exp}}}"

    def _print_DiagMatrix(self, expr: sp.Expr) -> str:
        return rf"\operatorname{{diag}}({self._print(expr.args[0])})"

    def _print_HadamardProduct(self, expr: sp.Expr) -> str:
        parts = [self.parenthesize(a, 60) for a in expr.args]
        return r" \odot ".join(parts)


def tex(expr: sp.Basic) -> str:
    """An expression as TeX, without dollars."""
    return _Printer().doprint(expr)


def line(step: Step) -> str:
    """What a step shows after its relation: printed, or as it was set by hand."""
    return step.tex if step.tex is not None else tex(step.expression)


def claim(derivation: Derivation) -> str:
    """Left side, relation, right side."""
    relation = RELATIONS["<=" if isinstance(derivation.claim, sp.Le) else "="]
    return f"{tex(derivation.claim.lhs)} {relation} {line(derivation.steps[-1])}"


def definition(given: Definition) -> str:
    """What a letter stands for."""
    return f"{tex(given.head)} = {tex(given.body)}"


def sides(derivation: Derivation) -> tuple[str | None, ...]:
    r"""For each step the left side to print before its relation, or None where it goes on.

    The first line has one, and each line that turns from an entry to the whole matrix or back:
    :math:`J_{ij} = \dots`, later :math:`J = \dots`.
    """
    return tuple(_side(derivation, whole, tex) for whole in _turns(derivation))


def plain_sides(derivation: Derivation) -> tuple[str | None, ...]:
    """The same for a terminal: ``J[i, j]``, later ``J``."""
    return tuple(_side(derivation, whole, plain) for whole in _turns(derivation))


def _turns(derivation: Derivation) -> list[bool | None]:
    """For each step: whether a whole matrix (True) or a scalar (False) begins here, else None."""
    whole = [bool(getattr(step.expression, "is_Matrix", False)) for step in derivation.steps]
    return [w if k == 0 or w != whole[k - 1] else None for k, w in enumerate(whole)]


def _side(
    derivation: Derivation, whole: bool | None, to_text: Callable[[sp.Basic], str]
) -> str | None:
    """The left side of the claim, as the whole matrix or as its entry at the free indices."""
    left = derivation.claim.lhs
    if whole is None:
        return None
    if bool(getattr(left, "is_Matrix", False)) == whole:
        return to_text(left)
    indices = [i for i, _ in derivation.ranges]
    if whole and isinstance(left, sp.Indexed) and list(left.indices) == indices:
        return to_text(left.base)
    if isinstance(left, sp.MatrixSymbol):
        return to_text(sp.IndexedBase(left.name)[tuple(indices)])
    opened, closed = "[]" if whole else "()"
    if to_text is plain:
        return f"{opened}{plain(left)}{closed}[{', '.join(map(str, indices))}]"
    below = "".join(map(tex, indices))
    return rf"\left{opened}{tex(left)}\right{closed}_{{{below}}}"


def ranges(derivation: Derivation) -> str:
    r"""Where the free indices run, those of one size together: :math:`i, j = 1, \dots, n`."""
    together: dict[sp.Expr, list[str]] = {}
    for i, upto in derivation.ranges:
        together.setdefault(upto, []).append(tex(i))
    return r",\quad ".join(
        rf"{', '.join(names)} = 1, \dots, {tex(upto)}" for upto, names in together.items()
    )


def plain(expr: sp.Basic) -> str:
    """An expression for a terminal, on one line, in the order in which it was written."""
    return bare(sp.sstr(expr, order="none"))


BARE = (
    (r"KroneckerDelta\b", "delta"),
    (r"DiagMatrix\b", "diag"),
    (r"\\displaystyle ", ""),
    (r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)"),
    (r"\\(bar|hat|tilde)\{(\w+)\}", r"\2_\1"),
    (r"\\(?:mathbb|mathrm|operatorname)\{(\w+)\}", r"\1"),
    (r"\\(?:ne|neq)\b", "!="),
    (r"\\le\b", "<="),
    (r"\\ge\b", ">="),
    (r"\\(?:dots|ldots)\b", "..."),
    (r"\\top\b", "T"),
    (r"\\[,;!]|\\(?:left|right)\b", ""),
    (r"\\([a-zA-Z]+)", r"\1"),
    (r"[{}]", ""),
)


def bare(text: str) -> str:
    r"""Short TeX for a terminal: no backslashes, no braces; ``\bar{V}`` is ``V_bar``."""
    for pattern, instead in BARE:
        text = re.sub(pattern, instead, text)
    return text
