"""Execute the pages that the cache does not know yet, two at a time, and fill the cache.

MyST-NB would execute them one after another while it reads them. Here each page has its own
kernel in its own thread; what the pages print lands in the same cache, under the same key as
MyST-NB would give it, so the build that follows executes nothing.
"""

from __future__ import annotations

import re
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn, JupyterCacheAbstract
from jupyter_cache.executors.utils import single_nb_execution
from myst_nb.core.read import is_myst_markdown_notebook, read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from shared_cache import Page, fingerprint

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Failure:
    """A page that did not run to its end, told in words."""

    page: str
    sentence: str
    details: str = ""


@dataclass(frozen=True)
class Timing:
    """How long a page took when it was last executed."""

    page: str
    seconds: float
    cells: int


def read_page(page: Page, extensions: frozenset[str] = frozenset()):
    """The page as a notebook, exactly as MyST-NB reads it; None if it has no cells to run."""
    text = page.path.read_text(encoding="utf-8")
    if page.path.suffix == ".ipynb":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            notebook = nbformat.reads(text, as_version=4)
    elif is_myst_markdown_notebook(text):
        config = MdParserConfig(enable_extensions=set(extensions))
        notebook = read_myst_markdown_notebook(text, config, add_source_map=True, path=page.path)
    else:
        return None
    mode = notebook.metadata.get("mystnb", {}).get("execution_mode")
    return None if mode == "off" else notebook


def code_cells(notebook) -> int:
    """How many code cells a notebook has."""
    return sum(cell.cell_type == "code" for cell in notebook.cells)


def what_it_reads(page: Page, notebook) -> str:
    """The hash of the other files a page reads: `reads: [book, notebooks]` in its front matter.

    Names are relative to the root of the project; a folder stands for all below it.
    """
    parts = notebook.metadata.get("reads", [])
    root = page.path.resolve().parents[page.name.count("/")]
    return fingerprint(root, list(parts)) if parts else ""


def cached_record(cache: JupyterCacheAbstract, page: Page, notebook):
    """The cache's record of this very notebook, or None if it is missing, damaged or too old."""
    try:
        record = cache.match_cache_notebook(notebook)
        cache.get_cache_bundle(record.pk)
    except KeyError:
        return None
    return record if record.data.get("reads", "") == what_it_reads(page, notebook) else None


def timings(folder: Path, found: list[Page], extensions: frozenset[str]) -> list[Timing]:
    """What the cache remembers of the pages that have code cells, in reading order."""
    cache = get_cache(str(folder))
    result = []
    for page in found:
        notebook = read_page(page, extensions)
        record = None if notebook is None else cached_record(cache, page, notebook)
        if record is not None and code_cells(notebook):
            seconds = float(record.data["execution_seconds"])
            result.append(Timing(page.name, seconds, code_cells(notebook)))
    return result


def fill_cache(
    folder: Path,
    found: list[Page],
    extensions: frozenset[str],
    timeout: int,
    report=print,
    workers: int = 2,
) -> tuple[list[Timing], list[Failure]]:
    """Execute every page that is not in the cache; return what ran and what failed.

    `timeout` is the longest a single cell may take, in seconds. Good pages are cached even if
    another one fails, so that mending one page does not cost the others again.
    """
    cache = get_cache(str(folder))
    waiting = []
    for page in found:
        notebook = read_page(page, extensions)
        if notebook is None or cached_record(cache, page, notebook) is not None:
            continue
        waiting.append((page, notebook))
    ran, failed = [], []
    if waiting:
        count = f"{len(waiting)} page{'s' if len(waiting) > 1 else ''}"
        report(f"Executing {count} (two at a time; this is done once for each state of the code):")
    with ThreadPoolExecutor(max_workers=workers) as pool:
        jobs = {pool.submit(_execute, page, nb, timeout): page for page, nb in waiting}
        try:
            for job in as_completed(jobs):
                outcome, notebook = job.result()
                if isinstance(outcome, Failure):
                    failed.append(outcome)
                    report(f"  {outcome.page}: failed")
                    continue
                cache.cache_notebook_bundle(
                    CacheBundleIn(
                        notebook,
                        str(jobs[job].path),
                        data={
                            "execution_seconds": outcome.seconds,
                            "reads": what_it_reads(jobs[job], notebook),
                        },
                    ),
                    check_validity=False,
                    overwrite=True,
                )
                ran.append(outcome)
                report(f"  {outcome.page}: {outcome.seconds:.1f} s")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return ran, failed


def _execute(page: Page, notebook, timeout: int):
    """Run one page in a kernel of its own; return its timing or its failure."""
    if code_cells(notebook) == 0:
        return Timing(page.name, 0.0, 0), notebook
    at = {"index": 0}

    def remember(cell, cell_index):
        at["index"] = cell_index

    timeout = notebook.metadata.get("mystnb", {}).get("execution_timeout", timeout)
    try:
        result = single_nb_execution(
            notebook,
            cwd=str(page.path.parent),
            timeout=timeout,
            allow_errors=False,
            on_cell_start=remember,
            extra_arguments=["--log-level=ERROR"],
        )
    except DeadKernelError:
        place = _place(page, notebook, at["index"])
        sentence = f"{place} ended Python itself (often: no memory left)."
        return Failure(page.name, sentence), notebook
    if result.err is None:
        return Timing(page.name, result.time, code_cells(notebook)), notebook
    place = _place(page, notebook, at["index"])
    if isinstance(result.err, CellTimeoutError):
        return Failure(page.name, f"{place} ran longer than {timeout} seconds."), notebook
    told = ANSI.sub("", str(result.err.evalue)).strip().splitlines()
    what = f"{result.err.ename}: {told[0]}" if told else result.err.ename
    details = ANSI.sub("", str(result.err)).strip()
    return Failure(page.name, f"{place} failed with {what}", details), notebook


def _place(page: Page, notebook, index: int) -> str:
    """`code cell 3 of book/page.md (line 57)`, counting code cells from 1 as a reader would."""
    number = code_cells(notebook) and sum(
        cell.cell_type == "code" for cell in notebook.cells[: index + 1]
    )
    where = f"code cell {number} of {page.name}{page.path.suffix}"
    lines = notebook.metadata.get("source_map")
    return f"{where} (line {lines[index]})" if lines else where
