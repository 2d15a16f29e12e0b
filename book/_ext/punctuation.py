r"""A formula in a sentence keeps its comma, full stop or bracket on its own line.

Browsers allow a line to break on either side of a set formula, even between $d_k$ and the comma
after it. So the signs that touch a formula are held together with it, by the class ``td-hold``.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

OPENING = re.compile(r"[(\[“‘\"]+$")
CLOSING = re.compile(r"^(?:-\w+)?(?:[.,;:!?)\]”’\"%…]|['’]s\b)*")


class Hold(SphinxPostTransform):
    """Wrap each inline formula and the signs that touch it."""

    default_priority = 900  # when references and glue have become text

    def run(self, **_: object) -> None:
        """Change the tree of one page."""
        for formula in list(self.document.findall(nodes.math)):
            held = self._take(formula, -1, OPENING), formula, self._take(formula, 1, CLOSING)
            if any(held[::2]):
                wrapped = nodes.inline("", classes=["td-hold"])
                formula.replace_self(wrapped)
                wrapped += [nodes.Text(x) if isinstance(x, str) else x for x in held if x]

    @staticmethod
    def _take(formula: nodes.math, step: int, signs: re.Pattern) -> str:
        """The signs on one side of a formula, which then leave the text that they stood in."""
        parent, place = formula.parent, formula.parent.index(formula) + step
        beside = parent[place] if 0 <= place < len(parent) else None
        found = signs.search(beside.astext()) if isinstance(beside, nodes.Text) else None
        if not found or not found[0]:
            return ""
        text = beside.astext()
        parent.replace(beside, nodes.Text(text[: found.start()] + text[found.end() :]))
        return found[0]


def setup(app):
    """Entry point for Sphinx."""
    app.add_post_transform(Hold)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
