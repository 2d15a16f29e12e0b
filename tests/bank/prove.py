"""Prove the bank: every right form agrees with the reference, every wrong answer does not.

python tests/bank/prove.py              one line for each exercise, and the totals
python tests/bank/prove.py -v           also where each wrong answer shows and where it hides
python tests/bank/prove.py --markdown   the whole bank as a document
python tests/bank/prove.py masks_1      only these modules

Exit status 1 on any fault. The book's tests call ``examine`` for every exercise.
"""

import importlib
import itertools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np
from bank import Raised, outcome, same, torch

MODULES = sorted(
    path.stem
    for path in pathlib.Path(__file__).parent.glob("*.py")
    if path.stem not in ("bank", "prove", "own", "names") and not path.stem.endswith("_shared")
)
REPEATS = 6


def cases(ex):
    """(kind, arguments) for each kind of input, several seeds each, the same in every run."""
    for number, (kind, make) in enumerate(ex.inputs.items()):
        for seed in range(REPEATS):
            yield kind, make(np.random.default_rng([seed, number, *map(ord, ex.id)]))


def examine(ex):
    """All faults found in one exercise, and for each wrong answer where it shows and hides."""
    faults, skipped = [], 0
    runs = list(cases(ex))
    truth = []
    for kind, args in runs:
        value, changed = outcome(ex, ex.reference, args)
        truth.append(value)
        if isinstance(value, Raised) or changed:
            faults.append(f"reference fails on '{kind}': {value}, arguments changed: {changed}")
        elif not same(value, value, ex.rtol, ex.atol):
            faults.append(f"reference gives nan on '{kind}'")
    for right in ex.right:
        if right.form.startswith("torch") and torch is None:
            skipped += 1
            continue
        for (kind, args), want in zip(runs, truth):
            got, changed = outcome(ex, right.fn, args)
            if not same(got, want, ex.rtol, ex.atol):
                faults.append(
                    f"right form '{right.form}' differs from the reference on '{kind}': {got!r}"[
                        :300
                    ]
                )
                break
            if changed:
                faults.append(f"right form '{right.form}' changes its arguments on '{kind}'")
                break
    shows, answers = {}, {}
    for wrong in ex.wrong:
        if wrong.name.startswith("torch") and torch is None:
            skipped += 1
            continue
        results = [outcome(ex, wrong.fn, args)[0] for _, args in runs]
        answers[wrong.name] = results
        hit = {}
        for (kind, _), got, want in zip(runs, results, truth):
            how = (
                ""
                if same(got, want, ex.rtol, ex.atol)
                else "raises"
                if isinstance(got, Raised)
                else "differs"
            )
            hit.setdefault(kind, []).append(how)
        shows[wrong.name] = hit
        ex.__dict__.setdefault("largest", {})[wrong.name] = max(
            gap(g, w) for g, w in zip(results, truth)
        )
        if not any(any(h) for h in hit.values()):
            faults.append(f"wrong answer '{wrong.name}' agrees with the reference on every input")
        if not wrong.hint or not wrong.source:
            faults.append(f"wrong answer '{wrong.name}' lacks a hint or a source")
    for a, b in itertools.combinations(answers, 2):
        if all(twins(ex, x, y) for x, y in zip(answers[a], answers[b])):
            faults.append(f"wrong answers '{a}' and '{b}' cannot be told apart")
    usable = [r for r in ex.right if torch is not None or not r.form.startswith("torch")]
    if len(usable) < 1:
        faults.append("no right form")
    if len(ex.wrong) < 2:
        faults.append("fewer than two wrong answers")
    names = [w.name for w in ex.wrong] + [r.form for r in ex.right]
    if len(set(names)) != len(names):
        faults.append("two answers of the same name")
    return faults, skipped, shows


def twins(ex, x, y):
    if isinstance(x, Raised) or isinstance(y, Raised):
        return isinstance(x, Raised) and isinstance(y, Raised) and x.kind == y.kind
    return same(x, y, ex.rtol, ex.atol) or (has_nan(x) and has_nan(y))


def gap(x, want):
    """Largest deviation relative to 1 + |reference|; infinite for another structure or nan."""
    if isinstance(x, Raised) or has_nan(x):
        return float("inf")
    if isinstance(x, tuple) and isinstance(want, tuple) and len(x) == len(want):
        return max((gap(a, b) for a, b in zip(x, want)), default=0.0)
    arrays = (np.ndarray, np.float64)
    if not (isinstance(x, arrays) and isinstance(want, arrays)):
        return (
            0.0
            if type(x) is type(want) and not isinstance(x, tuple) and x == want
            else float("inf")
        )
    if np.shape(x) != np.shape(want):
        return float("inf")
    with np.errstate(all="ignore"):
        d = np.where(np.equal(x, want), 0.0, np.abs(x - want) / (1 + np.abs(want)))
    return float("inf") if np.isnan(d).any() else float(np.max(d, initial=0.0))


def has_nan(x):
    if isinstance(x, tuple):
        return any(has_nan(y) for y in x)
    return isinstance(x, (np.ndarray, np.float64)) and bool(np.isnan(x).any())


def main(argv):
    verbose, markdown = "-v" in argv, "--markdown" in argv
    wanted = [a for a in argv if not a.startswith("-")] or MODULES
    total = dict(exercises=0, right=0, wrong=0, runs=0, skipped=0, hidden=0, sourced=0)
    bad, ids, quiet, rare = 0, set(), [], []
    if markdown:
        print(
            "# Bank of wrong answers\n\nWritten by `run_all.py --markdown`. Kinds of input on "
            "which a wrong answer "
            "passes unseen are listed: a check that uses only those accepts it.\n"
        )
    for name in wanted:
        module = importlib.import_module(name)
        if markdown:
            print(f"## {name}\n\n{module.__doc__}\n")
        for ex in module.EXERCISES:
            faults, skipped, shows = examine(ex)
            if ex.id in ids:
                faults.append("id used twice")
            ids.add(ex.id)
            total["exercises"] += 1
            total["right"] += len(ex.right)
            total["wrong"] += len(ex.wrong)
            total["skipped"] += skipped
            total["runs"] += REPEATS * len(ex.inputs) * (1 + len(ex.right) + len(ex.wrong))
            total["sourced"] += sum("#" in w.source for w in ex.wrong)
            total["hidden"] += sum(any(not any(h) for h in hit.values()) for hit in shows.values())
            bad += len(faults)
            if markdown:
                print(
                    f"### {ex.id}\n\n{ex.task}\n\n`{ex.signature}`\n\nRight: "
                    + "; ".join(r.form for r in ex.right)
                    + ".\n"
                )
                print("| wrong answer | hint | source | unseen on |\n| --- | --- | --- | --- |")
                for w in ex.wrong:
                    hide = [k for k, h in shows.get(w.name, {}).items() if not any(h)]
                    print(
                        f"| {w.name} | {w.hint} | {w.source} | {', '.join(hide) or '-'} |".replace(
                            "\n", " "
                        )
                    )
                print()
            else:
                print(
                    f"{'ok  ' if not faults else 'FAIL'} {ex.id:34s} "
                    f"right {len(ex.right)}  wrong {len(ex.wrong)}  "
                    f"inputs {len(ex.inputs)}x{REPEATS}"
                )
                if verbose:
                    for w, hit in shows.items():
                        show = [
                            f"{k} ({next(h for h in hs if h)})" if "raises" in hs else k
                            for k, hs in hit.items()
                            if any(hs)
                        ]
                        hide = [k for k, hs in hit.items() if not any(hs)]
                        print(
                            f"       - {w}: shows on {', '.join(show) or 'NOTHING'}"
                            + (f"; hides on {', '.join(hide)}" if hide else "")
                        )
            rare += [
                (ex.id, w, max(sum(map(bool, hs)) for hs in hit.values()))
                for w, hit in shows.items()
                if not any(all(hs) for hs in hit.values())
            ]
            quiet += [(g, ex.id, w) for w, g in ex.__dict__.get("largest", {}).items() if g < 1e-2]
            for fault in faults:
                print(f"     ! {ex.id}: {fault}", file=sys.stderr if markdown else sys.stdout)
    if verbose and quiet:
        print(
            "quiet wrong answers (largest deviation, relative to 1 + |reference|): the "
            "tolerance has to be below it"
        )
        for g, ex_id, w in sorted(quiet):
            print(f"     {g:.1e}  {ex_id}: {w}")
    if verbose and rare:
        print(f"rare wrong answers (no kind of input shows them in all of {REPEATS} draws):")
        for ex_id, w, hits in rare:
            print(f"     {hits}/{REPEATS}  {ex_id}: {w}")
    line = (
        "{exercises} exercises, {right} right forms, {wrong} wrong answers ({sourced} with a "
        "thread, {hidden} of them "
        "invisible on at least one kind of input), {runs} runs, {skipped} forms skipped for "
        "want of torch; "
    ).format(**total) + (f"{bad} faults" if bad else "no fault")
    print(line, file=sys.stderr if markdown else sys.stdout)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
