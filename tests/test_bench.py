"""The benchmark: peers compute what ours compute, ratios are paired, tables say what was timed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from itertools import chain

import pytest
import torch
from helpers import D, F, H, S, default_dtype
from repository import ROOT

from transformer_lab.models import DecoderOnlyConfig, ModelConfig

sys.path.insert(0, str(ROOT / "bench"))

import report
import rows
from clock import Spread, fastest, in_turns, paired
from rows import BART, GPT2, OURS, PEGASUS, PLAIN, T5, TORCH, UNCACHED, Entry

SPEC = importlib.util.spec_from_file_location("bench_main", ROOT / "bench" / "__main__.py")
bench_main = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bench_main)

LM = DecoderOnlyConfig(
    29, D, H, F, 3, norm="pre", positions="learned", activation="gelu", max_length=S
)
PAIRS = ModelConfig(
    23, 23, D, H, F, encoder_layers=2, decoder_layers=3, dropout=0.0, positions="learned",
    max_length=S,
)  # fmt: skip


@pytest.fixture(autouse=True)
def double():
    """In float64 what is equal is equal to many digits."""
    with default_dtype(torch.float64):
        yield


def repeated(row: rows.Row, times: int) -> dict[str, list]:
    return {who: [entry.run() for _ in range(times)] for who, entry in row.entries.items()}


# --- they compute the same ---


def test_language_models_train_alike_step_by_step():
    row = rows.train_lm(LM, batch=11, steps=3, rounds=1)
    found = repeated(row, 8)
    losses = list(chain(*found[OURS]))
    assert len(losses) == 24 and losses[-1] < losses[0] - 0.3
    assert set(found) == {OURS, PLAIN, GPT2}
    for who in (PLAIN, GPT2):
        assert row.compare(found[OURS], found[who]) < 1e-10, who


def test_encoder_decoders_train_alike_step_by_step():
    row = rows.train_pairs(PAIRS, batch=11, T=7, steps=3, rounds=1)
    found = repeated(row, 8)
    losses = list(chain(*found[OURS]))
    assert len(losses) == 24 and losses[-1] < losses[0] - 0.3
    assert row.compare(found[OURS], found[TORCH]) < 1e-10
    assert [who for who, entry in row.entries.items() if not entry.same] == [BART]


@pytest.mark.parametrize("batch", [1, 5])
def test_all_generate_the_same_tokens(batch):
    row = rows.generate_lm(LM, batch=batch, prompt=6, rounds=3)
    found = repeated(row, 1)
    ours = found[OURS][0]
    assert [len(text) for text in ours] == [S - 6] * batch
    assert all(token > 2 for text in ours for token in text)
    assert min(len(set(text)) for text in ours) > 3, "a model that repeats itself shows nothing"
    assert set(found) == {OURS, UNCACHED, PLAIN, GPT2}
    assert all(texts == [ours] for texts in found.values())
    slow = [who for who, entry in row.entries.items() if entry.rounds == 1]
    assert slow == ([UNCACHED, PLAIN] if batch > 1 else [])


def test_with_and_without_cache_are_timed_by_their_names(monkeypatch):
    asked = []
    monkeypatch.setattr(rows, "generate", lambda *_, cache: asked.append(cache))
    row = rows.generate_lm(LM, batch=5, prompt=6, rounds=3)
    row.entries[OURS].run()
    row.entries[UNCACHED].run()
    assert asked == [True, False]


def test_beam_search_finds_what_pegasus_finds():
    config = replace(PAIRS, encoder_layers=3)  # T5 caches as many layers as its encoder has
    row = rows.search(config, sources=19, S=11, width=3, rounds=1)
    found = repeated(row, 1)
    ours = found[OURS][0]
    assert set(found) == {OURS, PEGASUS, BART, T5}
    assert found[PEGASUS] == [ours]
    assert {len(target) for texts in found.values() for target in texts[0]} == {S - 1}
    assert len({tuple(target) for target in ours}) > 11, "equal targets would show nothing"
    assert [who for who, entry in row.entries.items() if entry.same] == [OURS, PEGASUS]


def test_models_of_a_row_are_equally_large():
    lm = rows.train_lm(LM, batch=11, steps=1, rounds=1)
    pairs = rows.train_pairs(PAIRS, batch=11, T=7, steps=1, rounds=1)
    for row, equal in ((lm, (PLAIN, GPT2)), (pairs, (TORCH,))):
        counts = {
            who: sum(p.numel() for p in entry.model.parameters())
            for who, entry in row.entries.items()
        }
        assert {counts[who] for who in equal} == {counts[OURS]}


# --- the clock ---


def test_everyone_takes_a_turn_in_every_round():
    now, asked = [0.0], []
    lasts = {"a": iter([9.0, 1.0, 2.0, 3.0]), "b": iter([9.0, 4.0, 5.0, 6.0]), "c": iter([7.0])}

    def run(name: str):
        def once() -> str:
            asked.append(name)
            now[0] += next(lasts[name])
            return f"{name}{len(asked)}"

        return once

    seconds, results = in_turns(
        {name: run(name) for name in "abc"}, {"a": 3, "b": 3, "c": 1}, lambda: now[0]
    )
    assert asked == ["a", "b", "a", "b", "c", "b", "a", "a", "b"]  # a and b once untimed
    assert seconds == {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0], "c": [7.0]}
    assert results["a"] == ["a1", "a3", "a7", "a8"] and results["c"] == ["c5"]


def test_ratios_are_those_of_the_same_round():
    assert paired([2.0, 9.0, 5.0], [4.0, 3.0]) == [0.5, 3.0]
    assert Spread.of([4.0, 1.0, 2.5]) == Spread(2.5, 1.0, 4.0)
    # b is fastest once, a in the middle
    assert fastest({"a": [2.0, 3.0, 4.0], "b": [1.0, 5.0, 6.0], "c": [0.1]}, ["a", "b"]) == "a"


# --- the tables ---


def entry(seconds, difference=None, same=None, parameters=1234):
    return {
        "parameters": parameters, "seconds": seconds, "per_second": 50.0 / seconds[0],
        "difference": difference, "computes_the_same": same,
    }  # fmt: skip


def measured(entries) -> dict:
    return {
        "row": "generate-1", "unit": "new tokens", "measure": "share of other tokens",
        "tolerance": 0.1, "entries": entries,
    }  # fmt: skip


BY_HAND = measured(
    {
        OURS: entry([0.25, 0.5, 0.5]),
        UNCACHED: entry([2.0, 2.0], 0.0, True),
        GPT2: entry([1.0, 1.0, 2.0], 0.03125, True),
        PLAIN: entry([2.0, 0.5, 3.0], 0.5, False, 1250),
    }
)


def test_claims_by_hand():
    ratio, cached = report.claims(BY_HAND)
    assert (ratio.ratio, cached.ratio) == (f"{OURS} / {GPT2}", "no cache / cache")
    assert ratio.spread == Spread(0.25, 0.25, 0.5)
    assert cached.spread == Spread(6.0, 4.0, 8.0)
    assert (ratio.verdict(), cached.verdict()) == ("aim reached", "reached")


@pytest.mark.parametrize(
    "median, verdict",
    [(0.4, "aim reached"), (0.41, "target reached"), (1.05, "target reached"), (1.06, "missed")],
)
def test_verdicts(median, verdict):
    claim = report.Claim("generate-1", "a / b", Spread(median, 0.0, 9.0), 1.05, 0.4)
    assert claim.verdict() == verdict
    slower = report.Claim("generate-1", "b / a", Spread(4.9, 0.0, 9.0), 5.0, 5.0, at_most=False)
    assert slower.verdict() == "missed"


def test_tables_by_hand():
    ratio, cached = report.summary(report.claims(BY_HAND)).splitlines()[2:]
    assert ratio == (
        "| generate-1 | ours / transformers GPT-2 | 0.25 (0.25 … 0.50) | ≤ 1.05 | ≤ 0.40 "
        "| aim reached |"
    )
    assert cached == (
        "| generate-1 | no cache / cache | 6.00 (4.00 … 8.00) | ≥ 5.00 | ≥ 5.00 | reached |"
    )
    head, rule, *lines = report.details([BY_HAND]).splitlines()
    assert lines[0] == (
        "| generate-1 | ours | 1,234 | 200 new tokens | 500.0 (250.0 … 500.0) "
        "| 0.25 (0.25 … 0.50) | 3 |  |"
    )
    assert lines[3] == (
        "| generate-1 | nanoGPT style, written here | 1,250 | 25 new tokens "
        "| 2000.0 (500.0 … 3000.0) | 1.50 (0.50 … 2.00) | 3 | share of other tokens: 0.5 |"
    )
    assert len(lines) == 4
    assert {line.count("|") for line in (head, rule, *lines)} == {9}


def test_a_peer_that_computes_something_else_is_named():
    (sentence,) = report.strangers(BY_HAND)
    assert PLAIN in sentence and "0.5, allowed 0.1" in sentence


def test_a_disturbed_peer_is_found():
    row = rows.train_lm(LM, batch=11, steps=2, rounds=2)
    with torch.no_grad():
        row.entries[PLAIN].model.h[2].c_out.bias[0] += 0.5
    seen = report.measure("train-small", row, iter(range(1000)).__next__)
    assert seen["entries"][PLAIN]["computes_the_same"] is False
    assert seen["entries"][GPT2]["computes_the_same"] is True
    assert seen["entries"][OURS]["computes_the_same"] is None
    assert [PLAIN in sentence for sentence in report.strangers(seen)] == [True]


def test_a_row_is_measured_by_the_step():
    model = torch.nn.Linear(3, 5)
    row = rows.Row(
        what="", entries={OURS: Entry(model, lambda: [1.0]), PLAIN: Entry(model, lambda: [1.0])},
        rounds=3, amount=70, unit="tokens", parts=2, compare=rows.loss_difference,
        measure="losses, nats", tolerance=1e-3,
    )  # fmt: skip
    seen = report.measure("train-small", row, iter(range(0, 1000, 4)).__next__)
    ours = seen["entries"][OURS]
    assert ours["seconds"] == [2.0, 2.0, 2.0]  # 4 seconds a run, 2 steps in a run
    assert ours["per_second"] == 70 / 4
    assert ours["parameters"] == 20


def test_comparisons_by_hand():
    assert rows.loss_difference([[1.0, 2.0], [3.0]], [[1.0, 2.25], [2.5]]) == 0.5
    assert rows.differing_share([[[9]], [[1, 2], [3, 4]]], [[[1, 2], [4, 4]]]) == 0.25


# --- the command ---


def test_rows_have_targets_and_sizes():
    assert tuple(bench_main.table_of_rows(quick=True)) == bench_main.NAMES == tuple(report.AIMS)


def run(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)


def test_a_quick_run_end_to_end(tmp_path):
    out = tmp_path / "bench.json"
    ran = run("--quick", "--rows", "train-small", "--clock", "cpu", "--out", str(out))
    assert ran.returncode == 0, ran.stderr
    record = json.loads(out.read_text(encoding="utf-8"))
    (row,), (claim,) = record["rows"], record["claims"]
    assert record["command"].startswith("python bench --quick --rows train-small")
    assert row["entries"][OURS]["parameters"] == row["entries"][GPT2]["parameters"] == 809_856
    assert {len(e["seconds"]) for e in row["entries"].values()} == {2}
    assert max(row["entries"][who]["difference"] for who in (PLAIN, GPT2)) < 1e-3
    assert claim["row"] == "train-small" and claim["aim"] == 0.7
    assert record["machine"]["threads"] == 1
    assert record["machine"]["linear_kernel"] in ("torch", "onednn")
    assert record["machine"]["processor"] in ran.stdout
    assert f"| train-small | {claim['ratio']} |" in ran.stdout
    assert "its figures say little" in ran.stdout


def test_a_run_with_a_disturbed_peer_fails_and_a_part_is_not_recorded(monkeypatch, capsys):
    row = rows.train_lm(LM, batch=11, steps=2, rounds=2)
    with torch.no_grad():
        row.entries[GPT2].model.transformer.h[0].ln_1.weight[4] += 0.5
    monkeypatch.setattr(bench_main, "table_of_rows", lambda quick: {"train-small": lambda: row})
    record = ROOT / "book" / "data" / "bench.json"
    before = record.read_bytes() if record.exists() else None
    assert bench_main.main(["--rows", "train-small"]) == 1
    told = capsys.readouterr()
    assert f"train-small: {GPT2} has our weights and computes something else" in told.err
    assert PLAIN not in told.err and "All figures" not in told.out
    assert before == (record.read_bytes() if record.exists() else None)


def test_without_transformers_one_sentence_says_what_to_install():
    code = (
        "import sys, runpy; sys.modules['transformers'] = None; "
        "sys.argv = ['bench', '--quick']; runpy.run_path('bench', run_name='__main__')"
    )
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == bench_main.MISSING + "\n"
    assert "requirements-test.txt" in ran.stderr


@pytest.mark.parametrize(
    "arguments, says",
    [(["--threads", "0"], "at least 1, but got 0"), (["--rows", "encoder"], "invalid choice")],
)
def test_wrong_arguments_are_refused(arguments, says, capsys):
    with pytest.raises(SystemExit):
        bench_main.main(arguments)
    assert says in capsys.readouterr().err
