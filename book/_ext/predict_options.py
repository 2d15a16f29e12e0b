"""The options of a prediction, and what is wrong with them, in a sentence.

`predict.py` is the directive; here is what its options say: one of `:answer:`, `:number:` and
`:free:`, with `:choices:`, `:tolerance:` and `:unit:` where they belong.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
CHOICES = "write them as :choices: first | second"


class PredictionError(ValueError):
    """A prediction that cannot be asked; the message says what to mend."""


@dataclass(frozen=True)
class Question:
    """What the options of a prediction say.

    `right` is the index of the right choice; `shown` is the right number as it is printed. Both
    are None if nothing is right or wrong.
    """

    kind: str  # "choice", "number" or "text"
    choices: tuple[str, ...] = ()
    right: int | None = None
    number: float | None = None
    shown: str | None = None
    tolerance: float = 0.0
    unit: str = ""


def to_number(name: str, text: str, unit: str = "") -> float:
    """The number that an option holds: 0.5, 1e-3, 1,234 (thousands), with or without its unit."""
    bare = text.strip()
    if unit and bare.endswith(unit):
        bare = bare.removesuffix(unit).strip()
    if THOUSANDS.fullmatch(bare):
        bare = bare.replace(",", "")
    try:
        value = float(bare)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise PredictionError(f":{name}: takes a number such as 0.5 or 1e-3, not {text!r}")
    return value


def split_choices(text: str) -> tuple[str, ...]:
    """The choices between ` | `; at least two, none empty, no two alike."""
    found = tuple(part.strip() for part in re.split(r"(?:^|\s)\|(?:\s|$)", text.strip()))
    if len(found) < 2:
        raise PredictionError(f"a choice needs two answers or more; {CHOICES}")
    if "" in found:
        raise PredictionError(f"one of the choices is empty; {CHOICES}")
    if len(set(found)) < len(found):
        twice = next(choice for choice in found if found.count(choice) > 1)
        raise PredictionError(f"the choice {twice!r} stands there twice; make them differ")
    return found


def read_options(options: dict[str, str]) -> Question:
    """Turn options into a question, or say which rule they break.

    Raises :class:`PredictionError`.
    """
    given = [name for name in ("answer", "number", "free") if name in options]
    if len(given) != 1:
        told = " and ".join(f":{name}:" for name in given) or "none of them"
        raise PredictionError(f"give one of :answer:, :number: and :free:; here is {told}")
    kind = given[0]
    choices = split_choices(options["choices"]) if "choices" in options else ()
    if kind != "number":
        for name in ("tolerance", "unit"):
            if name in options:
                raise PredictionError(f":{name}: goes with :number: only; take it out")
    if kind == "free":
        return Question("choice" if choices else "text", choices)
    if kind == "answer":
        if not choices:
            raise PredictionError(f":answer: needs choices; {CHOICES}")
        try:
            answer = int(options["answer"])
        except ValueError:
            answer = 0
        if not 1 <= answer <= len(choices):
            raise PredictionError(
                f":answer: is a whole number from 1 to {len(choices)}, the number of choices, "
                f"not {options['answer']!r}"
            )
        return Question("choice", choices, right=answer - 1)
    if choices:
        raise PredictionError(":choices: go with :answer: or :free:; a :number: is typed")
    unit = options.get("unit", "").strip()
    number = to_number("number", options["number"], unit)
    tolerance = to_number("tolerance", options.get("tolerance", "0"), unit)
    if tolerance < 0:
        raise PredictionError(f":tolerance: is 0 or more, not {options['tolerance']!r}")
    shown = options["number"].strip().removesuffix(unit).strip()
    return Question("number", (), None, number, shown, tolerance, unit)
