"""How fast ours are, as ratios against implementations that nobody here wrote.

    python bench                       all rows, up to six minutes on a quiet computer
    python bench --rows encdec beam-5  some of them
    python bench --quick               everything once or twice, shorter: does it run?

All implementations of a row take turns, round by round, in this process. float32, no dropout,
fused AdamW for all, nobody's gradients are clipped. Peers with our weights must compute what we
compute; if one does not, the exit status is 1. A whole run that is not quick is recorded.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rows import Row

ROOT = Path(__file__).resolve().parents[1]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
NAMES = ("train-small", "train-medium", "generate-1", "generate-16", "encdec", "beam-5")
MISSING = (
    "The benchmark compares with the package transformers, which is not installed here: install "
    "what the tests need (python -m pip install -r requirements-test.txt), then run this again."
)


def table_of_rows(quick: bool) -> dict[str, Callable[[], Row]]:
    """How each row is made: models and data only when it is its turn."""
    import rows
    from rows import DecoderOnlyConfig, ModelConfig

    few = 2 if quick else None
    new = 64 if quick else 256

    def lm(layers: int, d_model: int, h: int, length: int) -> DecoderOnlyConfig:
        return DecoderOnlyConfig(
            65, d_model, h, 4 * d_model, layers, positions="learned", max_length=length
        )

    def pairs(length: int) -> ModelConfig:
        return ModelConfig(
            64, 64, 128, 4, 512, 3, 3, dropout=0.0, positions="learned", max_length=length
        )

    prepare = functools.partial
    return {
        "train-small": prepare(rows.train_lm, lm(4, 128, 4, 64), 16, 5, few or 15),
        "train-medium": prepare(rows.train_lm, lm(6, 384, 6, 256), 4, 1, few or 11),
        "generate-1": prepare(rows.generate_lm, lm(4, 128, 4, 8 + new), 1, 8, few or 11),
        "generate-16": prepare(rows.generate_lm, lm(4, 128, 4, 8 + new), 16, 8, few or 11),
        "encdec": prepare(rows.train_pairs, pairs(12), 96, 10, 3, few or 15),
        "beam-5": prepare(rows.search, pairs(28), 64, 12, 5, few or 11),
    }


def main(arguments: list[str]) -> int:
    """Measure, print the tables, write the JSON; 1 if a peer computed something else."""
    parser = argparse.ArgumentParser("python bench", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="+", choices=NAMES, default=NAMES, metavar="ROW",
                        help=f"some of {', '.join(NAMES)}")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="two rounds, 64 new tokens")
    parser.add_argument("--threads", type=int, default=1, help="threads for all (1)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall",
                        help="cpu: seconds of this process, for a busy computer")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="where the JSON goes (a whole run: book/data/bench.json)")  # fmt: skip
    options = parser.parse_args(arguments)
    if options.threads < 1:
        parser.error(f"--threads must be at least 1, but got {options.threads}; 1 is usual.")
    try:
        import transformers
    except ImportError:
        print(MISSING, file=sys.stderr)
        return 1
    import report
    import torch

    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    began, before = time.perf_counter(), report.load()
    prepared = table_of_rows(options.quick)
    measured = []
    for name in options.rows:
        print(f"{name} …", file=sys.stderr, flush=True)
        measured.append(report.measure(name, prepared[name](), CLOCKS[options.clock]))
    found = [claim for row in measured for claim in report.claims(row)]
    record = {
        "command": " ".join(["python bench", *arguments]),
        "machine": report.machine() | {
            "transformers": transformers.__version__, "clock": options.clock,
            "load_before": before, "load_after": report.load(),
            "seconds": round(time.perf_counter() - began, 1),
        },
        "claims": [report.as_json(claim) for claim in found],
        "rows": measured,
    }  # fmt: skip
    print(report.in_words(record["machine"]))
    print(f"\n{report.summary(found)}\n\n{report.details(measured)}")
    if options.quick:
        print("\nA quick run shows that everything works; its figures say little.")
    whole = not options.quick and set(options.rows) == set(NAMES)
    out = options.out or (ROOT / "book" / "data" / "bench.json" if whole else None)
    if out:
        out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"\nAll figures: {out}")
    strangers = [sentence for row in measured for sentence in report.strangers(row)]
    for sentence in strangers:
        print(sentence, file=sys.stderr)
    return 1 if strangers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
