"""Build the book: `python book/build.py` (or `make book`, which installs everything first).

Fetches the data, executes the pages that are not in the cache (two at a time), assembles the
book strictly (a warning is an error), and prints where the first page is. If nothing at all
has changed since the last build it says so and stops. A failed build leaves the last good
book where it was and ends with exit status 1 and a sentence that says what to mend.
"""

from __future__ import annotations

import argparse
import datetime
import errno
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "book" / "_ext")]

WORKERS = 2
VERSIONS = ["torch", "numpy", "matplotlib", "plotly", "jupyter-book", "sphinx", "myst-nb"]
INPUTS = ["book", "notebooks", "transformer_lab", "_config.yml", "_toc.yml", "requirements.txt"]
INPUTS += ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "LICENSE-text", "data.req"]
JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"
PROBLEM = re.compile(r"\b(WARNING|ERROR|CRITICAL|SEVERE): ")
DECORATION = re.compile(r"\x1b\[[0-9;]*m|^=+$")


class BuildError(Exception):
    """The book cannot be built; the message says why and what to do."""


def set_environment(root: Path) -> None:
    """What the kernels and Sphinx see: this package, one thread, UTF-8, nobody's own settings."""
    build = root / "_build"
    before = os.environ.get("PYTHONPATH")
    os.environ.update(
        PYTHONPATH=os.pathsep.join([str(root), *([before] if before else [])]),
        PYTHONUTF8="1",
        PYTHONHASHSEED="0",
        PYDEVD_DISABLE_FILE_VALIDATION="1",
        OMP_NUM_THREADS="1",
        MKL_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
        NO_COLOR="1",
        TRANSFORMER_LAB_UNATTENDED="1",  # nobody is there to guess or to turn a slider
        IPYTHONDIR=str(build / "ipython"),
        MPLCONFIGDIR=str(build / "matplotlib"),
        JUPYTER_CONFIG_DIR=str(build / "jupyter"),
        JUPYTER_RUNTIME_DIR=str(build / "jupyter" / "runtime"),
        JUPYTER_PREFER_ENV_PATH="1",
    )
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")


class PeakMemory(threading.Thread):
    """Watches the resident memory of this process and all below it; `peak` is in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.start()

    def run(self) -> None:
        """Look five times a second."""
        import psutil

        me = psutil.Process()
        while True:
            total = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.Error:
                    continue
            self.peak = max(self.peak, total)
            time.sleep(0.2)


def settings(root: Path) -> tuple[frozenset[str], int]:
    """From `_config.yml`: the Markdown extensions, and the seconds a cell may take."""
    import yaml

    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    extensions = config.get("parse", {}).get("myst_enable_extensions", [])
    always = ["colon_fence", "dollarmath", "linkify", "substitution", "tasklist"]
    return frozenset([*extensions, *always]), config.get("execute", {}).get("timeout", 30)


def input_hash(root: Path) -> str:
    """One hash over everything a build depends on: files, Python, installed packages."""
    from shared_cache import fingerprint

    installed = sorted(f"{d.name} {d.version}" for d in importlib.metadata.distributions())
    told = "\n".join([fingerprint(root, INPUTS), sys.version, *installed])
    return hashlib.sha256(told.encode()).hexdigest()


def output_hash(root: Path) -> str:
    """One hash over the built book and its measurements."""
    from shared_cache import fingerprint

    return fingerprint(root, ["_build/html", "_build/contract.json"])


def is_unchanged(root: Path) -> bool:
    """Whether the last build was good and neither what went in nor what came out has changed."""
    from shared_cache import cache_folder

    try:
        stamp = json.loads((root / "_build" / "stamp.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return (
        cache_folder(root).is_dir()
        and stamp.get("inputs") == input_hash(root)
        and stamp.get("outputs") == output_hash(root)
    )


def write_json(path: Path, content: dict) -> None:
    """Write a small JSON file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8", newline="\n")
    partial.replace(path)


def execute(root: Path, report) -> int:
    """Fill the cache; return how many pages ran. A failing cell ends the build."""
    from runner import fill_cache
    from shared_cache import cache_folder, pages

    fonts = root / "_build" / "matplotlib"
    if not any(fonts.glob("fontlist*")):  # else the first figure would print a warning
        subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=False)
    extensions, timeout = settings(root)
    ran, failed = fill_cache(
        cache_folder(root), pages(root), extensions, timeout, report, workers=WORKERS
    )
    if failed:
        details = "\n\n".join(failure.details for failure in failed if failure.details)
        told = " ".join(failure.sentence for failure in failed)
        raise BuildError(f"{details}\n\nThe book was not built: {told}".strip())
    return len(ran)


def record(root: Path, peak: int, ran: int) -> dict:
    """Update the measurements that belong to the present state of the code, and return them."""
    from runner import timings
    from shared_cache import cache_folder, pages

    folder = cache_folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "contract.json"
    old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    found = timings(folder, pages(root), settings(root)[0])
    today = datetime.date.today().isoformat()
    contract = {
        "pages": [vars(timing) for timing in found],
        "peak_bytes": max(round(peak, -8), old.get("peak_bytes", 0)),
        "machine": {
            "system": f"{platform.system()}, {platform.machine()}, "
            f"Python {platform.python_version()}",
            "cores": os.cpu_count(),
            "workers": WORKERS,
        },
        "versions": {name: importlib.metadata.version(name) for name in VERSIONS},
        "measured": today if ran or not old else old["measured"],
    }
    write_json(path, contract)
    write_json(root / "_build" / "contract.json", contract)
    return contract


def assemble(root: Path, verbose: bool) -> None:
    """Let Jupyter Book assemble the pages, strictly, beside the old book; then swap the two."""
    build = root / "_build"
    fresh = build / "next"
    shutil.rmtree(fresh, ignore_errors=True)
    arguments = ["build", str(root), "-W", "-n", "--keep-going", "--path-output", str(fresh)]
    command = [sys.executable, "-c", JUPYTER_BOOK, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    lines = []
    with subprocess.Popen(command, cwd=root, encoding="utf-8", errors="replace", **pipes) as run:
        for line in run.stdout:
            lines.append(line.rstrip("\n"))
            if verbose:
                print(line, end="")
    log = DECORATION.sub("", "\n".join(lines))
    (build / "build.log").write_text(log + "\n", encoding="utf-8", newline="\n")
    if run.returncode or not (fresh / "_build" / "html" / "index.html").is_file():
        raise BuildError(explain(root, lines))
    shutil.rmtree(build / "html", ignore_errors=True)
    (fresh / "_build" / "html").rename(build / "html")
    shutil.rmtree(fresh, ignore_errors=True)


def explain(root: Path, lines: list[str]) -> str:
    """What Jupyter Book complained about, with paths as a reader knows them."""
    short = [DECORATION.sub("", line.replace(str(root) + os.sep, "")).rstrip() for line in lines]
    problems = list(dict.fromkeys(line for line in short if PROBLEM.search(line)))
    told = "\n".join(problems or [line for line in short if line][-8:])
    count = f"{len(problems)} warning{'s' if len(problems) > 1 else ''}"
    cause = f"{count}, and a warning is an error here" if problems else "Jupyter Book gave up"
    return f"{told}\n\nThe book was not built: {cause}; the whole report is in _build/build.log."


def build(root: Path, report=print, verbose: bool = False) -> bool:
    """Build the book in `root`; return False if nothing had changed."""
    from shared_cache import remove_old_caches

    if is_unchanged(root):
        return False
    watch = PeakMemory()
    remove_old_caches(root)
    ran = execute(root, report)
    contract = record(root, watch.peak, ran)
    report("Assembling the pages ...")
    assemble(root, verbose)
    if round(watch.peak, -8) > contract["peak_bytes"]:
        record(root, watch.peak, ran)  # the page about memory would be wrong: print it again
        assemble(root, verbose)
    write_json(
        root / "_build" / "stamp.json", {"inputs": input_hash(root), "outputs": output_hash(root)}
    )
    return True


def locked_build(root: Path, verbose: bool) -> None:
    """Fetch the data and build, one build at a time; print where the first page is."""
    from filelock import FileLock, Timeout

    from transformer_lab.data.sources import DataError, fetch

    first_time = not (root / "_build").is_dir()
    try:  # the folders and licences are told once
        fetch(report=lambda line: print(line) if first_time or line[:1].strip() else None)
    except DataError as error:
        raise BuildError(str(error)) from None
    (root / "_build").mkdir(exist_ok=True)
    lock = FileLock(root / "_build" / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print("Another build is running in this folder; waiting for it ...")
        lock.acquire()
    with lock:
        lock.release()  # the context holds it once more
        began = time.monotonic()
        changed = build(root, print, verbose)
        took = time.monotonic() - began
    print(f"The book was built in {took:.0f} s." if changed else "Nothing has changed.")
    first = root / "_build" / "html" / "index.html"
    print(f"First page: {first}\nIn a browser: {first.as_uri()}")


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build the book.")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what Sphinx says")
    arguments = parser.parse_args()
    set_environment(ROOT)
    try:
        locked_build(ROOT, arguments.verbose)
    except BuildError as error:
        print(error, file=sys.stderr)
    except ModuleNotFoundError as error:
        print(
            f"{sys.executable} has no package {error.name}: run `make book`, or install as "
            "README.md says and use the Python of .venv.",
            file=sys.stderr,
        )
    except FileNotFoundError as error:
        print(f"The book was not built: {error}", file=sys.stderr)
    except OSError as error:
        full = error.errno == errno.ENOSPC
        cure = "the disk is full, free some space" if full else error.strerror
        print(f"The book was not built: {cure} ({error.filename or ROOT}).", file=sys.stderr)
    except KeyboardInterrupt:
        print("Stopped. Pages that had finished are kept in the cache.", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
