"""Make the environment of the book: the folder .venv with everything in requirements.txt.

    python3.11 book/install.py          what the book needs
    python3.11 book/install.py test     what the tests need as well

`make book` and `make test` call this. It uses the standard library only, does nothing when
nothing has changed, and ends with one sentence when something is missing.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if sys.platform == "win32" else "bin")
PYTHON = BIN / ("python.exe" if sys.platform == "win32" else "python")
STAMP = VENV / "installed.json"
LISTS = {"book": ["requirements.txt"], "test": ["requirements.txt", "requirements-test.txt"]}
LOWEST, BEYOND = (3, 11), (3, 14)
NEEDED = 3e9  # bytes for the CPU build of PyTorch and all the rest


def stop(sentence):
    """End with a sentence for the reader and exit status 1."""
    print(sentence, file=sys.stderr)
    sys.exit(1)


def check_python(version=sys.version_info):
    """Only Python 3.11, 3.12 and 3.13 have all the pinned packages."""
    if not LOWEST <= tuple(version[:2]) < BEYOND:
        stop(
            f"This is Python {version[0]}.{version[1]}, but the book needs Python 3.11, 3.12 or "
            "3.13: install one of these, then run `make book PYTHON=/path/to/python3.11`."
        )


def check_disk(free=None):
    """Refuse to begin what cannot be finished."""
    free = shutil.disk_usage(ROOT).free if free is None else free
    if free < NEEDED:
        stop(
            f"Only {free / 1e9:.1f} GB are free on the disk of {ROOT}, but the packages need "
            f"about {NEEDED / 1e9:.0f} GB (with the CUDA build of PyTorch about 8 GB): free some "
            "space and run this again."
        )


def version_of_this_python():
    """Such as 3.11."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def version_of_environment():
    """The Python version inside .venv, or None if there is none that runs."""
    ask = [str(PYTHON), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def check_version_of_environment():
    """The .venv that is there must be of the Python that was asked for."""
    mine = version_of_this_python()
    there = version_of_environment()
    if there not in (None, mine):
        stop(
            f"The folder .venv holds Python {there}, but you asked for Python {mine}: delete "
            f"{VENV} and run this again."
        )


def make_environment():
    """Make .venv with this Python, or keep the one that is there."""
    mine = version_of_this_python()
    there = version_of_environment()
    has_pip = there and not subprocess.run(
        [str(PYTHON), "-c", "import pip"], capture_output=True, check=False
    ).returncode
    if has_pip:
        return
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        stop(
            f"The Python at {sys.executable} came without its venv module: on Debian or Ubuntu "
            f"run `apt-get install python{mine}-venv` as root, elsewhere install Python from "
            "python.org, then run this again."
        )
    print(f"Making .venv with Python {mine} ...", flush=True)
    clear = ["--clear"] if VENV.exists() and there is None else []
    made = subprocess.run([sys.executable, "-m", "venv", *clear, str(VENV)], check=False)
    if made.returncode:
        stop(f"The environment {VENV} could not be made; the lines above say why.")


def fingerprint(target):
    """What an installation depends on: the lists, the package's own file, place and Python."""
    told = [str(ROOT), version_of_environment() or ""]
    for name in [*LISTS[target], "pyproject.toml"]:
        told.append((ROOT / name).read_text(encoding="utf-8"))
    return hashlib.sha256("\0".join(told).encode("utf-8")).hexdigest()


def read_stamp():
    """What was installed before, by target."""
    try:
        return json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def pip(arguments):
    """Run pip; show only what takes long; on failure say in one sentence what to do."""
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    lines = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as run:
        for line in run.stdout:
            lines.append(line.rstrip())
            if "Downloading" in line and (" MB)" in line or " GB)" in line):
                print(f"  {line.strip()}", flush=True)
            if line.startswith("Installing collected packages"):
                print("  installing (a minute or two) ...", flush=True)
    if run.returncode == 0:
        return
    print("\n".join(lines[-12:]), file=sys.stderr)
    stop(explain("\n".join(lines)))


def explain(output):
    """One sentence for a failed installation, from what pip printed."""
    if "No space left" in output or "Errno 28" in output:
        return (
            "The disk became full while packages were installed: free about 8 GB (also where "
            "temporary files go; the variable TMPDIR can point elsewhere) and run this again."
        )
    network = ("NewConnectionError", "ConnectionError", "Name or service", "timed out", "resolve")
    if any(sign in output for sign in network):
        return (
            "The packages could not be downloaded: check the network, then run this again (what "
            "has been downloaded is not fetched twice)."
        )
    return "The packages could not be installed; the lines above, from pip, say why."


def main(arguments):
    """Install for the target named on the command line."""
    target = arguments[0] if arguments else "book"
    if target not in LISTS:
        stop(f"There is nothing to install for {target!r}: say `book` or `test`.")
    check_python()
    check_version_of_environment()
    stamp = read_stamp()
    if stamp.get(target) == fingerprint(target) and version_of_environment():
        return
    if not (VENV.exists() and stamp):
        check_disk()
    make_environment()
    print("Installing packages (PyTorch is large: the first time takes minutes) ...", flush=True)
    pip(["-r", LISTS[target][-1]])
    pip(["--no-deps", "--no-build-isolation", "-e", "."])
    stamp[target] = fingerprint(target)
    stamp["book"] = fingerprint("book")
    STAMP.write_text(json.dumps(stamp) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        stop("Stopped; run this again to go on.")
    except OSError as error:
        stop(f"The environment could not be made: {error.strerror} ({error.filename or VENV}).")
