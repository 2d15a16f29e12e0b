"""From timings to a table: ratios against the fastest peer, targets, the machine in words."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import torch
from clock import Spread, fastest, in_turns, paired
from rows import OURS, UNCACHED, Row

from transformer_lab.kernels import linear_kernel

AT_MOST = 1.05
"""No row may take longer than this share of the fastest peer's time."""

AIMS = {
    "train-small": 0.70,
    "train-medium": 0.70,
    "generate-1": 0.40,
    "generate-16": 0.55,
    "encdec": 0.75,
    "beam-5": 0.60,
}
CACHE_AT_LEAST = 5.0
"""So many times as fast as without a cache must generation with one be."""


@dataclass(frozen=True)
class Claim:
    """One ratio with what is demanded of it (``at_most`` or at least) and what is hoped for."""

    row: str
    ratio: str
    spread: Spread
    target: float
    aim: float
    at_most: bool = True

    def reached(self, limit: float) -> bool:
        return (self.spread.median <= limit) if self.at_most else (self.spread.median >= limit)

    def verdict(self) -> str:
        if self.reached(self.aim):
            return "aim reached" if self.aim != self.target else "reached"
        return "target reached" if self.reached(self.target) else "missed"


def measure(name: str, row: Row, clock: Callable[[], float]) -> dict:
    """Time a row; everything about it as JSON-able values (seconds are those of one step)."""
    rounds = {who: min(e.rounds or row.rounds, row.rounds) for who, e in row.entries.items()}
    runs = {who: entry.run for who, entry in row.entries.items()}
    seconds, results = in_turns(runs, rounds, clock)
    per_step = {who: [s / row.parts for s in taken] for who, taken in seconds.items()}
    entries = {}
    for who, entry in row.entries.items():
        compared = entry.same and who != OURS
        apart = row.compare(results[OURS], results[who]) if compared else None
        entries[who] = {
            "parameters": sum(p.numel() for p in entry.model.parameters() if p.requires_grad),
            "seconds": per_step[who],
            "per_second": row.amount / row.parts / Spread.of(per_step[who]).median,
            "difference": apart,
            "computes_the_same": None if apart is None else apart <= row.tolerance,
        }
    return {
        "row": name, "what": row.what, "unit": row.unit, "measure": row.measure,
        "tolerance": row.tolerance, "entries": entries,
    }  # fmt: skip


def claims(row: dict) -> list[Claim]:
    """What a measured row says about the targets."""
    name = row["row"]
    seconds = {who: entry["seconds"] for who, entry in row["entries"].items()}
    best = fastest(seconds, [who for who in seconds if who not in (OURS, UNCACHED)])
    ratio = Spread.of(paired(seconds[OURS], seconds[best]))
    found = [Claim(name, f"{OURS} / {best}", ratio, AT_MOST, AIMS[name])]
    if UNCACHED in seconds:
        times = Spread.of(paired(seconds[UNCACHED], seconds[OURS]))
        found.append(
            Claim(name, "no cache / cache", times, CACHE_AT_LEAST, CACHE_AT_LEAST, at_most=False)
        )
    return found


def strangers(row: dict) -> list[str]:
    """A sentence for each peer that has our weights and computed something else."""
    return [
        f"{row['row']}: {who} has our weights and computes something else "
        f"({row['measure']}: {entry['difference']:.2g}, allowed {row['tolerance']:g}), so its "
        f"time says nothing; look at bench/weights.py."
        for who, entry in row["entries"].items()
        if entry["computes_the_same"] is False
    ]


def details(rows: list[dict]) -> str:
    """Everyone's times, as a Markdown table."""
    lines = [
        "| row | implementation | parameters | per second | ms, median (min … max) "
        "| time / fastest peer | rounds | difference from ours |",
        "| --- | --- | ---: | ---: | --- | --- | ---: | --- |",
    ]
    for row in rows:
        seconds = {who: entry["seconds"] for who, entry in row["entries"].items()}
        best = fastest(seconds, [who for who in seconds if who not in (OURS, UNCACHED)])
        for who, entry in row["entries"].items():
            ms = Spread.of([1000 * s for s in entry["seconds"]])
            ratio = Spread.of(paired(entry["seconds"], seconds[best]))
            apart = "" if entry["difference"] is None else (
                f"{row['measure']}: {entry['difference']:.1g}"
            )  # fmt: skip
            lines.append(
                f"| {row['row']} | {who} | {entry['parameters']:,} "
                f"| {entry['per_second']:,.0f} {row['unit']} | {_spread(ms, '.1f')} "
                f"| {_spread(ratio, '.2f')} | {len(entry['seconds'])} | {apart} |"
            )
    return "\n".join(lines)


def summary(found: list[Claim]) -> str:
    """The ratios and what is demanded of them, as a Markdown table."""
    lines = [
        "| row | ratio | median (min … max) | target | aim | verdict |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for claim in found:
        sign = "≤" if claim.at_most else "≥"
        lines.append(
            f"| {claim.row} | {claim.ratio} | {_spread(claim.spread, '.2f')} "
            f"| {sign} {claim.target:.2f} | {sign} {claim.aim:.2f} | {claim.verdict()} |"
        )
    return "\n".join(lines)


def _spread(s: Spread, form: str) -> str:
    return f"{s.median:{form}} ({s.least:{form}} … {s.greatest:{form}})"


def as_json(claim: Claim) -> dict:
    """A claim as plain values."""
    return asdict(claim) | {"verdict": claim.verdict()}


def machine() -> dict:
    """The computer, in words and numbers."""
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "linear_kernel": linear_kernel(),
    }


def load() -> float:
    """How many processes wanted to run, on average over the last minute."""
    return round(psutil.getloadavg()[0], 2)


def _processor() -> str:
    """The name a processor gives itself, as far as the system tells."""
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    if platform.system() == "Darwin":
        ask = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()
    return platform.processor() or platform.machine()


def in_words(m: dict) -> str:
    """The machine as a sentence or two."""
    return (
        f"{m['processor']}, {m['cores']} cores, {m['system']}; Python {m['python']}, torch "
        f"{m['torch']}, transformers {m['transformers']}; {m['threads']} thread(s), our linear "
        f"maps by {m['linear_kernel']}, seconds by the {m['clock']} clock; load average "
        f"{m['load_before']} before, {m['load_after']} after; {m['seconds']} s in all."
    )
