"""Timing in turns, and the ratios of what was timed in the same turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of some numbers."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, numbers: list[float]) -> Spread:
        return cls(median(numbers), min(numbers), max(numbers))


def in_turns(
    runs: dict[str, Callable[[], object]],
    rounds: dict[str, int],
    clock: Callable[[], float],
) -> tuple[dict[str, list[float]], dict[str, list[object]]]:
    """Time each of ``runs`` once a round, in an order that turns round each time.

    ``rounds``: how many rounds each takes part in; round 0 comes first for all, so that entry r
    of two lists was measured in the same round. Whoever takes part in more than one round runs
    once untimed before. Returns the seconds by ``clock``, and all that was returned (the
    untimed run's too).
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    results: dict[str, list[object]] = {
        name: [run()] if rounds[name] > 1 else [] for name, run in runs.items()
    }
    for r in range(max(rounds.values())):
        order = list(runs) if r % 2 == 0 else list(runs)[::-1]
        for name in order:
            if r < rounds[name]:
                began = clock()
                result = runs[name]()
                seconds[name].append(clock() - began)
                results[name].append(result)
    return seconds, results


def fastest(seconds: dict[str, list[float]], names: list[str]) -> str:
    """Who of ``names`` has the smallest median."""
    return min(names, key=lambda name: median(seconds[name]))


def paired(over: list[float], under: list[float]) -> list[float]:
    """over / under, round by round, as long as both took part."""
    return [a / b for a, b in zip(over, under, strict=False)]
