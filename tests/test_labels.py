"""One label ties a numbered equation to the code that uses it, in both directions."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from repository import ROOT

from transformer_lab.derivations import DERIVATIONS
from transformer_lab.derivations.labels import labels_in_code

pytestmark = pytest.mark.plain  # symbols, no shapes

SET_BY_HAND = re.compile(r"^\$\$ \((eq-[\w-]+)\)\s*$", re.MULTILINE)
DERIVED = re.compile(r"^:::+\{derivation\} (eq-[\w-]+)\s*$", re.MULTILINE)
REFERENCE = re.compile(r"\{eq\}`(eq-[\w-]+)`")


def text_of(path) -> str:
    """The text of a page; of a notebook, that of all its cells."""
    raw = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return raw
    return "\n".join("".join(cell["source"]) for cell in json.loads(raw)["cells"])


PAGES = {
    path.relative_to(ROOT).as_posix(): text_of(path)
    for path in (*(ROOT / "book").glob("*.md"), *(ROOT / "notebooks").glob("*.ipynb"))
}


def listed(name: str) -> list[str]:
    """The labels of a list, comments and empty lines left out."""
    lines = (ROOT / "book" / name).read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def on_pages(pages: dict[str, str]) -> Counter:
    """How often each label numbers an equation, over all pages."""
    found: Counter = Counter()
    for text in pages.values():
        found.update(SET_BY_HAND.findall(text))
        found.update(DERIVED.findall(text))
    return found


def findings(
    pages: dict[str, str],
    in_code: set[str],
    derived: set[str],
    planned: list[str],
    definitions: list[str],
) -> list[str]:
    """What does not hold about labels, in words; empty if all is well."""
    found, used = on_pages(pages), in_code | derived
    shown, plan, defined = set(found), set(planned), set(definitions)
    referred = {label for text in pages.values() for label in REFERENCE.findall(text)}
    counts = Counter([*planned, *definitions])
    faults = {
        "numbers more than one equation": {label for label, n in found.items() if n > 1},
        "is in code, but on no page and not planned": used - shown - plan,
        "is planned, but stands on a page already": plan & shown,
        "is planned, but nothing uses it": plan - used,
        "is on a page, but no code, derivation or list of definitions knows it": shown
        - used
        - defined,
        "is listed as a definition, but is on no page": defined - shown,
        "is a definition, but code uses it": defined & used,
        "is listed twice": {label for label, n in counts.items() if n > 1},
        "is referred to, but numbers nothing": referred - shown,
    }
    return [f"{label} {fault}" for fault, labels in faults.items() for label in sorted(labels)]


def test_labels_tie_pages_and_code_together():
    assert not findings(
        PAGES,
        set(labels_in_code()),
        set(DERIVATIONS),
        listed("labels-planned.txt"),
        listed("labels-definitions.txt"),
    )


def test_every_derivation_is_derived_on_its_page():
    derived = {label for text in PAGES.values() for label in DERIVED.findall(text)}
    assert derived | set(listed("labels-planned.txt")) >= set(DERIVATIONS)


GOOD = {
    "pages": {"a.md": "$$\nx\n$$ (eq-x)\n\n:::{derivation} eq-y\n:::\nsee {eq}`eq-y`"},
    "in_code": {"eq-x"},
    "derived": {"eq-y"},
    "planned": [],
    "definitions": [],
}


def test_the_good_example_is_good():
    assert findings(**GOOD) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"pages": GOOD["pages"] | {"b.md": "$$\nx\n$$ (eq-x)\n"}},
            "eq-x numbers more than one equation",
        ),
        ({"in_code": {"eq-x", "eq-z"}}, "eq-z is in code, but on no page"),
        ({"derived": {"eq-y", "eq-z"}}, "eq-z is in code, but on no page"),
        ({"planned": ["eq-x"]}, "eq-x is planned, but stands on a page"),
        ({"planned": ["eq-w"]}, "eq-w is planned, but nothing uses it"),
        ({"in_code": set()}, "eq-x is on a page, but no code"),
        ({"definitions": ["eq-w"]}, "eq-w is listed as a definition, but is on no page"),
        ({"definitions": ["eq-x"]}, "eq-x is a definition, but code uses it"),
        ({"planned": ["eq-z", "eq-z"], "in_code": {"eq-x", "eq-z"}}, "eq-z is listed twice"),
        ({"pages": GOOD["pages"] | {"b.md": "see {eq}`eq-v`"}}, "eq-v is referred to"),
    ],
)
def test_each_fault_is_found(change, says):
    assert any(says in finding for finding in findings(**(GOOD | change)))
