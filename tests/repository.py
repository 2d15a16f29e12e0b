"""What the tests of the repository itself share: its files, its lists of requirements."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEFORE_GIT = {".git", ".venv", "_build", "runs", "build", "dist"}


def tracked_files() -> list[Path]:
    """The files of the project: what git has or would take; without git, all but what is built."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        told = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        names = {name for name in told.decode("utf-8").split("\0") if name}
        found = [ROOT / name for name in names]
    except (OSError, subprocess.CalledProcessError):
        found = [
            path
            for path in ROOT.rglob("*")
            if not BEFORE_GIT & set(path.relative_to(ROOT).parts)
            and not any(p == "__pycache__" or p.endswith("_cache") for p in path.parts)
            and ".egg-info" not in str(path)
        ]
    return sorted(path for path in found if path.is_file())


def text_files() -> list[tuple[str, str]]:
    """Name and text of every tracked file that is UTF-8 text."""
    result = []
    for path in tracked_files():
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        result.append((path.relative_to(ROOT).as_posix(), text))
    return result


def canonical(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """The direct and the other pins of a requirements file, name to version."""
    text = (ROOT / name).read_text(encoding="utf-8")
    own, _, others = text.partition("# --- 2. what those need ---")
    return _pins(own), _pins(others)


def _pins(text: str) -> dict[str, str]:
    result = {}
    for line in text.splitlines():
        line = line.split("#")[0].split(";")[0].strip()
        if line and not line.startswith("-"):
            found = re.fullmatch(r"([A-Za-z0-9._-]+)==([^=<>~ ]+)", line)
            assert found, f"not an exact pin: {line}"
            result[canonical(found[1])] = found[2]
    return result
