"""The strict build: green for the book, and red, in plain words, for every kind of mistake."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))
from shared_cache import cache_key, pages

HEAD = """---
file_format: mystnb
kernelspec:
  name: python3
  display_name: Python 3
---

"""
FIRST = HEAD + """(here)=
# First page

See [the first page](#here).

```{code-cell} ipython3
print("one plus one is", 1 + 1)
```

```{code-cell} ipython3
:tags: [raises-exception]
1 / 0
```
"""
SECOND = """# Second page

It took {contract}`total` seconds.

```{contract} pages
```
"""
CELL = "```{{code-cell}} ipython3\n{}\n```\n"
REDIRECT = "_build/html/index.html"


@pytest.fixture(scope="module")
def mini(tmp_path_factory) -> Path:
    """A copy of the book's machinery with two small pages of its own."""
    root = tmp_path_factory.mktemp("mini")
    (root / "book").mkdir()
    shutil.copytree(
        ROOT / "book" / "_ext", root / "book" / "_ext", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(ROOT / "book" / "_static", root / "book" / "_static")
    shutil.copy(ROOT / "book" / "build.py", root / "book")
    shutil.copy(ROOT / "_config.yml", root)
    (root / "book" / "references.bib").write_text("", encoding="utf-8")
    (root / "requirements.txt").write_text("", encoding="utf-8")
    reset(root)
    return root


def reset(root: Path) -> None:
    """Put the two good pages in place."""
    (root / "book" / "first.md").write_text(FIRST, encoding="utf-8")
    (root / "book" / "second.md").write_text(SECOND, encoding="utf-8")
    write_toc(root, "second")


def write_toc(root: Path, *names: str) -> None:
    chapters = "".join(f"  - file: book/{name}\n" for name in names)
    toc = f"format: jb-book\nroot: book/first\n{'chapters:' if names else ''}\n{chapters}"
    (root / "_toc.yml").write_text(toc, encoding="utf-8")


def run_build(root: Path) -> subprocess.CompletedProcess:
    """`python book/build.py` in that folder."""
    environment = os.environ | {"PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "book/build.py"],
        cwd=root,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def good(mini) -> Path:
    """The small book, built."""
    reset(mini)
    ran = run_build(mini)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return mini


def test_the_book_builds_strictly(site, root):
    assert (site / "index.html").is_file()
    missing = [page.name for page in pages(root) if not (site / f"{page.name}.html").is_file()]
    assert missing == []


def test_the_assembly_executed_nothing_itself(site, root):
    log = (root / "_build" / "build.log").read_text(encoding="utf-8")
    assert "Executing notebook" not in log and "build succeeded" in log


def test_every_page_is_within_its_time_budget(site, root, capsys):
    contract = json.loads((root / "_build" / "contract.json").read_text(encoding="utf-8"))
    seconds = {page["page"]: page["seconds"] for page in contract["pages"]}
    with capsys.disabled():
        for name, took in seconds.items():
            print(f"\n  {took:5.1f} s  {name}", end="")
    with_cells = [page.name for page in pages(root) if page.path.suffix == ".ipynb"]
    assert set(with_cells) <= set(seconds)
    assert {name: took for name, took in seconds.items() if took > 90} == {}


def test_the_site_asks_nobody_for_a_script(site):
    asked = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")
    found = {page.name: asked.findall(page.read_text("utf-8")) for page in site.rglob("*.html")}
    assert {name: urls for name, urls in found.items() if urls} == {}


def test_notebooks_hold_no_outputs(root):
    notebooks = sorted(map(str, (root / "notebooks").glob("*.ipynb")))
    assert notebooks
    command = [sys.executable, "-m", "nbstripout", "--verify", *notebooks]
    checked = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_unchanged_nothing_is_done(good):
    before = (good / REDIRECT).stat().st_mtime_ns
    again = run_build(good)
    assert again.returncode == 0 and "Nothing has changed." in again.stdout
    assert "Executing" not in again.stdout and "Assembling" not in again.stdout
    assert (good / REDIRECT).stat().st_mtime_ns == before
    assert (good / REDIRECT).as_uri() in again.stdout


def test_a_deleted_page_is_built_again_without_executing(good):
    (good / "_build" / "html" / "book" / "second.html").unlink()
    again = run_build(good)
    assert again.returncode == 0 and "Executing" not in again.stdout
    assert (good / "_build" / "html" / "book" / "second.html").is_file()


def test_other_words_execute_nothing_and_a_second_build_gives_the_same_bytes(good):
    first = good / "book" / "first.md"
    folder = good / "_build" / "html"
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    first.write_text(FIRST.replace("See", "Look at"), encoding="utf-8")
    changed = run_build(good)
    assert changed.returncode == 0 and "Executing" not in changed.stdout
    assert "Look at" in (folder / "book" / "first.html").read_text(encoding="utf-8")
    first.write_text(FIRST, encoding="utf-8")
    assert run_build(good).returncode == 0
    after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert [p.name for p in before | after if before.get(p) != after.get(p)] == []


def test_a_page_that_left_the_contents_leaves_the_book(good):
    write_toc(good)
    assert run_build(good).returncode == 0
    assert not (good / "_build" / "html" / "book" / "second.html").exists()


def test_changed_requirements_execute_the_pages_again(good):
    old = [path.name for path in (good / "_build" / "cache").iterdir()]
    (good / "requirements.txt").write_text("# other\n", encoding="utf-8")
    again = run_build(good)
    assert again.returncode == 0 and "Executing 1 page" in again.stdout
    new = [path.name for path in (good / "_build" / "cache").iterdir()]
    assert len(new) == 1 and new != old, "the cache of the old state was not removed"


def test_the_outputs_and_the_measurements_are_in_the_page(good):
    first = (good / "_build" / "html" / "book" / "first.html").read_text(encoding="utf-8")
    second = (good / "_build" / "html" / "book" / "second.html").read_text(encoding="utf-8")
    assert "one plus one is 2" in first and "ZeroDivisionError" in first
    contract = json.loads((good / "_build" / "contract.json").read_text(encoding="utf-8"))
    assert contract["peak_bytes"] > 50e6 and [p["cells"] for p in contract["pages"]] == [2]
    assert f"<td class=\"text-right\"><p>{contract['pages'][0]['seconds']:.1f}</p></td>" in second


FAILING = {
    "a cell that fails": ("total = 3\nprint(totl)", "failed with NameError: name 'totl'"),
    "a cell that ends Python": ("import os\nos._exit(1)", "ended Python itself"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_failing_cell_ends_the_build_in_plain_words(good, name):
    code, what = FAILING[name]
    page = f"{FIRST}\n{CELL.format(code)}"
    line = page[: page.index(code)].count("\n")
    (good / "book" / "first.md").write_text(page, encoding="utf-8")
    ran = run_build(good)
    last = ran.stderr.strip().splitlines()[-1]
    assert ran.returncode == 1 and what in last
    assert last.startswith(f"The book was not built: code cell 3 of book/first.md (line {line})")
    assert (good / REDIRECT).is_file(), "the last good book was taken away"


def test_every_warning_ends_the_build_and_again_the_second_time(good):
    mistakes = {
        "See {eq}`eq-nowhere`.\n": "eq-nowhere",
        "See {doc}`nowhere`.\n": "nowhere",
        CELL.format("import warnings\nwarnings.warn('old')"): "stderr was found",
        "````{note}\n" + CELL.format("1") + "````\n": "unexpected `code-cell`",
    }
    page = "\n".join([FIRST, *mistakes])
    (good / "book" / "first.md").write_text(page, encoding="utf-8")
    for _ in range(2):  # the second run must not live on what the first one left
        ran = run_build(good)
        last = ran.stderr.strip().splitlines()[-1]
        assert ran.returncode == 1 and last.startswith("The book was not built: 4 warnings")
        assert [word for word in mistakes.values() if word not in ran.stderr] == []
        assert "book/first.md:" in ran.stderr and str(good) not in ran.stderr
    assert (good / REDIRECT).is_file(), "the last good book was taken away"


def test_contents_that_name_no_file_are_refused(good):
    write_toc(good, "second", "third")
    ran = run_build(good)
    assert ran.returncode == 1 and "names the page book/third" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.fixture
def sources(tmp_path) -> Path:
    """A small project of which only the key of the cache is asked."""
    (tmp_path / "transformer_lab" / "pretrained").mkdir(parents=True)
    (tmp_path / "transformer_lab" / "norms.py").write_text("EPSILON = 1e-5\n", encoding="utf-8")
    (tmp_path / "transformer_lab" / "pretrained" / "weights.safetensors").write_bytes(b"\0\1")
    (tmp_path / "requirements.txt").write_text("torch==2\n", encoding="utf-8")
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "page.md").write_text("# A page\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "transformer_lab/norms.py",
        "transformer_lab/new.py",
        "transformer_lab/pretrained/weights.safetensors",
        "requirements.txt",
        "book/data/figures.json",
    ],
)
def test_the_key_of_the_cache_sees(sources, name):
    before = cache_key(sources, data="d")
    path = sources / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"changed")
    assert cache_key(sources, data="d") != before


def test_the_key_of_the_cache_sees_the_data_and_nothing_it_need_not(sources):
    before = cache_key(sources, data="d")
    assert cache_key(sources, data="e") != before
    (sources / "book" / "page.md").write_text("# Another\n", encoding="utf-8")
    compiled = sources / "transformer_lab" / "__pycache__"
    compiled.mkdir()
    (compiled / "norms.cpython-311.pyc").write_bytes(b"x")
    assert cache_key(sources, data="d") == before


def test_a_page_that_reads_other_files_is_executed_again_when_they_change(good):
    head = FIRST.replace("kernelspec:", "reads: [book/note.txt]\nkernelspec:", 1)
    cell = CELL.format("print(open('note.txt').read())")
    (good / "book" / "note.txt").write_text("alpha", encoding="utf-8")
    (good / "book" / "first.md").write_text(f"{head}\n{cell}", encoding="utf-8")
    assert run_build(good).returncode == 0
    (good / "book" / "note.txt").write_text("omega", encoding="utf-8")
    again = run_build(good)
    assert again.returncode == 0 and "Executing 1 page" in again.stdout
    assert "omega" in (good / "_build" / "html" / "book" / "first.html").read_text("utf-8")
