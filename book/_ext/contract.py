r"""The numbers the book answers for, printed when the page is built, never stored in a cell.

`book/build.py` measures and writes `_build/contract.json`. A page shows it with

    ```{contract} pages      the seconds of every executed page, and their sum
    ```{contract} build      memory, machine, date of the measurement
    ```{contract} versions   the versions of what the numbers depend on

and a single number inside a sentence with {contract}`total`: one of `total`, `slowest`,
`slowest-page`, `budget`, `peak`, `pages`, `cells`, `cores`.
"""

from __future__ import annotations

import json
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective, SphinxRole

BUDGET = 90.0  # seconds one page or notebook may take on two cores
EMPTY = {"pages": [], "peak_bytes": 0, "machine": {}, "versions": {}, "measured": ""}


def load(root: Path) -> dict:
    """The measurements of the last build that executed something."""
    path = root / "_build" / "contract.json"
    if not path.is_file():
        return EMPTY
    return json.loads(path.read_text(encoding="utf-8"))


def gigabytes(count: float) -> str:
    """A number of bytes in GB, one decimal: the precision in which memory is printed."""
    return f"{count / 1e9:.1f}"


def facts(contract: dict) -> dict[str, str]:
    """The single numbers, by the names that the role takes."""
    times = contract["pages"]
    slowest = max(times, key=lambda page: page["seconds"], default={"seconds": 0, "page": "none"})
    return {
        "total": f"{sum(page['seconds'] for page in times):.0f}",
        "slowest": f"{slowest['seconds']:.0f}",
        "slowest-page": slowest["page"],
        "budget": f"{BUDGET:.0f}",
        "peak": gigabytes(contract["peak_bytes"]),
        "pages": str(len(times)),
        "cells": str(sum(page["cells"] for page in times)),
        "cores": str(contract["machine"].get("cores", 0)),
    }


def pages_table(contract: dict) -> str:
    """Seconds of every page, as a Markdown table."""
    rows = [f"| Page | Code cells | Seconds (budget {BUDGET:.0f}) |", "| :-- | --: | --: |"]
    for page in contract["pages"]:
        link = f"{{doc}}`/{page['page']}`"
        rows.append(f"| {link} | {page['cells']} | {page['seconds']:.1f} |")
    known = facts(contract)
    rows.append(f"| **all pages** | **{known['cells']}** | **{known['total']}** |")
    return "\n".join(rows)


def build_table(contract: dict) -> str:
    """Memory and machine, as a Markdown table."""
    machine = contract["machine"]
    peak = gigabytes(contract["peak_bytes"])
    return "\n".join(
        [
            "| What | Measured |",
            "| :-- | :-- |",
            f"| Peak memory of the build, all its processes | {peak} GB |",
            f"| Pages executed at a time | {machine.get('workers', 'not measured')} |",
            f"| Machine | {machine.get('system', 'not measured')} |",
            f"| Cores | {machine.get('cores', 'not measured')} |",
            f"| Measured on | {contract['measured'] or 'not measured'} |",
        ]
    )


def versions_table(contract: dict) -> str:
    """Versions, as a Markdown table."""
    rows = ["| Package | Version |", "| :-- | :-- |"]
    rows += [f"| {name} | {version} |" for name, version in contract["versions"].items()]
    return "\n".join(rows)


TABLES = {"pages": pages_table, "build": build_table, "versions": versions_table}


class Contract(SphinxDirective):
    """A table of measurements."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Print the table that the argument names."""
        name = self.arguments[0]
        if name not in TABLES:
            raise self.error(f"contract knows {', '.join(TABLES)}, not {name!r}")
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / "_build" / "contract.json"))
        return self.parse_text_to_nodes(TABLES[name](load(root)))


class ContractNumber(SphinxRole):
    """One measured number inside a sentence."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Print the number that the text names."""
        known = facts(load(Path(self.env.srcdir)))
        if self.text not in known:
            message = f"contract knows {', '.join(known)}, not {self.text!r}"
            return [], [self.inliner.reporter.error(message, line=self.lineno)]
        self.env.note_dependency(str(Path(self.env.srcdir) / "_build" / "contract.json"))
        return [nodes.Text(known[self.text])], []


def setup(app):
    """Entry point for Sphinx."""
    app.add_directive("contract", Contract)
    app.add_role("contract", ContractNumber())
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
