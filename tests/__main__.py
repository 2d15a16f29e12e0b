"""All tests: `python tests` (or `make test`, which installs what they need first).

Two runs of pytest, both always made. In the first every array's shape is checked while the
tests run (jaxtyping with beartype). The second has the tests marked `plain`, which need that
switched off: messages for wrong input, timing. Arguments go to both: `python tests -k mask`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from chromium import MISSING, find_chromium

ROOT = Path(__file__).resolve().parents[1]
NO_TESTS = 5  # pytest's exit status when nothing was selected


def run(arguments: list[str], **variables: str) -> int:
    """One pytest process; returns its exit status."""
    environment = os.environ | {"PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"} | variables
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main(extra: list[str]) -> int:
    """Run both; 0 only if both are green."""
    if find_chromium() is None:
        print(MISSING, file=sys.stderr)
        return 1
    hook = "--jaxtyping-packages=transformer_lab,beartype.beartype"
    print("1 of 2: with the shapes of all arrays checked", flush=True)
    first = run([hook, "-m", "not plain", *extra])
    print("2 of 2: the tests marked plain", flush=True)
    second = run(["-m", "plain", *extra], JAXTYPING_DISABLE="1")
    if extra and {first, second} == {0, NO_TESTS}:
        return 0
    return 1 if first or second else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
