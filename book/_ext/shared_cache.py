"""The pages of the book and the one execution cache that the book and the tests share.

jupyter-cache looks at the code cells of a page only: edit an imported module and it would
serve the old output. So the cache lies in a folder whose name is a hash of all that a cell
can see besides its own text: `transformer_lab/` (with the trained weights), `requirements.txt`,
`book/data/`, the pinned data, and Python's version. As a Sphinx extension this module
points MyST-NB to that folder, however the book is built.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

IGNORED = {"__pycache__", ".ipynb_checkpoints", ".DS_Store"}


@dataclass(frozen=True)
class Page:
    """One page of the book: its name in `_toc.yml` and its file."""

    name: str
    path: Path


def pages(root: Path) -> list[Page]:
    """The pages of `_toc.yml`, in reading order."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    found = []
    for name in _names(toc):
        path = next((p for p in _candidates(root, name) if p.is_file()), None)
        if path is None:
            raise FileNotFoundError(f"_toc.yml names the page {name}, but there is no such file.")
        found.append(Page(name, path))
    return found


def _names(entry: dict) -> list[str]:
    own = [entry[key] for key in ("root", "file") if key in entry]
    below = [child for key in ("parts", "chapters", "sections") for child in entry.get(key, [])]
    return own + [name for child in below for name in _names(child)]


def _candidates(root: Path, name: str) -> list[Path]:
    return [root / f"{name}{suffix}" for suffix in ("", ".md", ".ipynb")]


def files_below(folder: Path) -> list[Path]:
    """Every file below a folder, sorted by name; caches and compiled files left out."""
    if folder.is_file():
        return [folder]
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not IGNORED & set(path.parts) and path.suffix != ".pyc"
    )


def fingerprint(root: Path, parts: list[str]) -> str:
    """One hash over the names and contents of the files below `root / part` for each part."""
    digest = hashlib.sha256()
    for part in parts:
        for path in files_below(root / part):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(root).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def cache_key(root: Path, data: str | None = None) -> str:
    """The hash of all that cells can see; `data` is the hash of the pinned data."""
    if data is None:
        from transformer_lab.data.sources import data_hash

        data = data_hash()
    code = fingerprint(root, ["transformer_lab", "requirements.txt", "book/data"])
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return hashlib.sha256(f"{code} {data} {python}".encode()).hexdigest()[:16]


def cache_folder(root: Path) -> Path:
    """Where the executed pages of the present state of the code lie."""
    return root / "_build" / "cache" / cache_key(root)


def remove_old_caches(root: Path) -> list[str]:
    """Delete the caches of other states of the code; return their names."""
    keep = cache_folder(root).name
    old = [path for path in (root / "_build" / "cache").glob("*") if path.name != keep]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return [path.name for path in old]


def _point_to_cache(app, config):
    config.nb_execution_cache_path = str(cache_folder(Path(app.srcdir)))


def setup(app):
    """Entry point for Sphinx."""
    app.connect("config-inited", _point_to_cache, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
