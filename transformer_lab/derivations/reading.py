r"""A line set by hand: its TeX, read as a Python function, must give the line's own numbers.

The reading gets a dictionary: sizes and free indices as whole numbers, scalars as floats, an array
as something to be indexed from 1, ``v["z"][1]`` or ``v["A"][1, 2]``, also where it is defined.
"""

from __future__ import annotations

import math
import random
from itertools import islice

import sympy as sp

from .core import Derivation, Step
from .explicit import Where, as_entry, at, places, sizes_of
from .refute import NowhereDefined, Values, atoms_of, drawn, number, points
from .symbolic import Known
from .written import everything

PLACES = 40
TOLERANCE = 1e-9


class Entries:
    """The numbers of one array; what was not drawn yet is drawn when it is asked for."""

    def __init__(self, base: sp.IndexedBase, where: Where, values: Values, known: Known) -> None:
        self.base, self.where, self.values, self.known = base, where, values, known

    def __getitem__(self, indices: int | tuple[int, ...]) -> float:
        entry = at(self.base[indices], self.where, self.known)
        for atom in atoms_of(entry):
            self.values.setdefault(atom, drawn(atom, random.Random(str(atom))))
        return float(number(entry, self.values))


def misread(derivation: Derivation, step: Step, known: Known) -> str | None:
    """Where the reading of ``step`` differs from its expression, in words; None if nowhere.

    Raises ``NowhereDefined`` if there was no place to compare them at.
    """
    line, compared = as_entry(step.expression, derivation), False
    for where in islice(places(derivation, derivation.largest), PLACES):
        right = at(line, where, known)
        scalars = _scalars(derivation)
        for values in points(atoms_of(right, *scalars)):
            expected = number(right, values)
            if expected is None or not expected.is_real:
                continue
            read = step.reading(_named(derivation, where, dict(values), known))
            compared = True
            if not math.isclose(read, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                return (
                    f"the line set by hand reads {read:.6g}, its expression is "
                    f"{float(expected):.6g} at {where}"
                )
    if not compared:
        raise NowhereDefined("there is no place at which the line set by hand has a value")
    return None


def _scalars(derivation: Derivation) -> list[sp.Symbol]:
    """Symbols that are neither defined nor a size, an index or the letter of an array."""
    exprs = everything(derivation)
    apart = set(sizes_of(derivation)) | {i for i, _ in derivation.ranges}
    apart |= {i for d in derivation.definitions for i in (d.head, *d.indices)}
    apart |= {e.base.label for x in exprs for e in x.atoms(sp.Indexed)}
    free = {s for x in exprs for s in x.free_symbols if s.is_Symbol}
    return sorted(free - apart, key=str)


def _named(derivation: Derivation, where: Where, values: Values, known: Known) -> dict:
    named: dict = {str(k): v for k, v in where.items()}
    named |= {str(k): float(v) for k, v in values.items() if k.is_Symbol}
    bases = {e.base for x in everything(derivation) for e in x.atoms(sp.Indexed)}
    named |= {str(base): Entries(base, where, values, known) for base in bases}
    for d in derivation.definitions:
        if not d.indices:
            value = number(at(d.head, where, known), values)
            named[d.name] = math.nan if value is None else float(value)
    return named
