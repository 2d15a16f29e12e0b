"""What README and its neighbours promise, held against what is there."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from repository import ROOT, canonical, pins, text_files, tracked_files

import transformer_lab
from transformer_lab.data.pins import SOURCES

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BOOK, BOOK_REST = pins("requirements.txt")
TEST, TEST_REST = pins("requirements-test.txt")
CODE_CELL = re.compile(r"^```\{code-cell\}.*?\n(?::.*\n)*(.*?)^```", re.M | re.S)
CUDA = re.compile(r"nvidia-|cuda-|triton")  # PyTorch pins these itself, on Linux only
# what a file needs that is in no list of requirements: names of this repository's own modules
OWN = {path.stem for path in tracked_files() if path.suffix == ".py"} | {"transformer_lab"}


def section(title: str) -> str:
    """The text of README below a heading, up to the next one."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.M | re.S)
    assert found, f"README has no section {title!r}"
    return found[1]


def tree() -> list[str]:
    """The paths that README's tree lists."""
    block = re.search(r"```text\n(.*?)```", section("The tree"), re.S)[1]
    paths, folder = [], ""
    for line in block.splitlines():
        name = line.split()[0] if line.strip() else ""
        if not name or line.startswith("      "):
            continue
        if line.startswith("  "):
            paths.append(folder + name)
        else:
            paths.append(name)
            folder = name if name.endswith("/") else ""
    return [path.rstrip("/") for path in paths]


def top_and_rooms() -> set[str]:
    """What the tree has to list: everything at the top, every room, the tools of the book."""
    names = [path.relative_to(ROOT).parts for path in tracked_files()]
    top = {parts[0] if parts[0] != ".ci" else "/".join(parts) for parts in names}
    rooms = {"/".join(parts[:2]) for parts in names if parts[0] in ("transformer_lab", "book")}
    pages = {name for name in rooms if re.fullmatch(r"book/[^_].*\.(md|bib)", name)}
    return (top | rooms) - pages - {".gitignore", ".gitattributes"}


def test_the_tree_lists_what_there_is():
    assert len(tree()) == len(set(tree()))
    missing = [path for path in tree() if not (ROOT / path).exists()]
    assert missing == []


def test_what_there_is_stands_in_the_tree():
    assert top_and_rooms() - set(tree()) == set()


def test_every_dependency_has_its_reason():
    rows = re.findall(r"^\| (`.*?`) \| (.+?) \|$", section("Dependencies"), re.M)
    names = [canonical(name) for cell, _ in rows for name in re.findall(r"`([^`]+)`", cell)]
    assert len(names) == len(set(names))
    assert set(names) == set(BOOK) | set(TEST)
    assert [cell for cell, reason in rows if len(reason.split()) < 3] == []


def test_every_import_is_a_direct_requirement():
    homes = importlib.metadata.packages_distributions()
    known = set(BOOK) | set(TEST)
    strange = set()
    for name, text in text_files():
        for module in imported(name, text):
            if module in sys.stdlib_module_names or module in OWN:
                continue
            dists = {canonical(dist) for dist in homes.get(module, [module])}
            if not dists & (known | {"packaging", *BLOCKS}):
                strange.add((name, module))
    assert strange == set()


# building blocks of a direct requirement, used by the name of the block: of Jupyter Book, of torch
BLOCKS = {"docutils", "sphinx", "ipython", "myst-parser", "nbclient", "nbformat", "mpmath"}


def imported(name: str, text: str) -> set[str]:
    """The top-level modules that a file imports."""
    if name.endswith(".ipynb"):
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    elif name.endswith(".md"):
        text = "\n".join(CODE_CELL.findall(text))
    elif not name.endswith(".py"):
        return set()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("%", "!"))]
    found = set()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def test_everything_is_pinned_and_installed_as_pinned():
    pinned = BOOK | BOOK_REST | TEST | TEST_REST
    for name, version in pinned.items():
        try:
            dist = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system: its line has a marker
        assert dist.version.split("+")[0] == version, f"{name}: {dist.version} is installed"
        for text in dist.requires or []:
            need = Requirement(text)
            if CUDA.match(need.name) or (need.marker and not need.marker.evaluate({"extra": ""})):
                continue
            assert canonical(need.name) in pinned, f"{name} needs {need.name}, which has no pin"


def test_the_ranges_of_the_package_contain_the_pins():
    pinned = BOOK | TEST
    wanted = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]
    for text in wanted:
        need = Requirement(text)
        assert need.specifier.contains(pinned[canonical(need.name)]), text


def test_data_req_says_what_the_package_pins():
    text = (ROOT / "data.req").read_text(encoding="utf-8")
    found = set(re.findall(r"^(\S+)==(\S+) --hash=sha256:([0-9a-f]{64})$", text, re.M))
    assert found == {
        (source.wheel.split("-")[0], source.version, source.sha256) for source in SOURCES.values()
    }


def test_one_version_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert transformer_lab.__version__ == PROJECT["version"]
    assert f"\nversion: {PROJECT['version']}\n" in citation
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# in pieces, so that this file does not contain what it looks for
FOREIGN = ["pypi" + ".org", "python" + "hosted", "npm" + "js.", "debian" + ".org", "conda" + ".org"]
PLACES = ["/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/Us" + "ers/", "C:" + "\\"]


@pytest.mark.parametrize("word", FOREIGN + PLACES)
def test_no_registry_and_no_machine_in_the_files(word):
    assert [name for name, text in text_files() if word in text] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        page = ROOT / path if path else ROOT / name
        assert page.exists(), f"{name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
            slugs = [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings]
            assert anchor in slugs, f"{name} links to {target}"


def test_commands_named_in_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    assert set(re.findall(r"`?make ([a-z-]+)", section("Two commands"))) <= targets
