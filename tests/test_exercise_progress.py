"""Progress: nothing is lost, strangers are refused in a sentence, a class is summed up."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from transformer_lab.cli import main
from transformer_lab.exercises import check, hint, my_progress, progress, tables
from transformer_lab.exercises.check import examine

pytestmark = pytest.mark.plain
ID = "softmax.backward"


def right(s, g):
    return s * (g - (g * s).sum(-1, keepdims=True))


def wrong(s, g):
    return s * g


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch) -> Path:
    """A progress file of this test's own."""
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path / "mine" / "progress.json"))
    monkeypatch.setitem(progress._silent, "said", False)
    progress._here.clear()
    return tmp_path / "mine" / "progress.json"


def stored(file: Path) -> dict:
    return json.loads(file.read_text("utf-8"))["exercises"]


def test_a_check_is_remembered_with_its_misconception(file, capsys):
    check(ID, wrong)
    check(ID, wrong)
    entry = stored(file)[ID]
    assert entry["state"] == "not yet" and entry["tries"] == 2 and entry["passed"] is None
    assert entry["misconceptions"] == {"the average left out": 2}
    check(ID, right)
    check(ID, wrong)
    entry = stored(file)[ID]
    assert entry["state"] == "passed" and entry["tries"] == 4 and entry["passed"]
    assert capsys.readouterr().out.count(f"{ID}: ") == 4


def test_an_untouched_template_is_no_try(file):
    check(ID, lambda s, g: ...)
    check(ID)
    assert not file.exists()


def test_hints_are_counted_and_come_one_at_a_time(file, capsys):
    for _ in range(5):
        hint(ID)
    told = capsys.readouterr().out.splitlines()
    assert [line[:11] for line in told] == [f"Hint {k} of 3" for k in (1, 2, 3, 3, 3)]
    assert len(set(told)) == 3 and stored(file)[ID]["hints"] == 5
    assert stored(file)[ID]["state"] == "not started"


def test_a_table_says_states_in_words(capsys):
    check(ID, right)
    check("softmax.stable", lambda x: x)
    told, page = repr(my_progress()), my_progress()._repr_html_()
    rows = {line.split()[0]: line for line in told.splitlines() if line and "." in line.split()[0]}
    assert "passed" in rows[ID] and "not yet" in rows["softmax.stable"]
    assert "not started" in rows["attention.scale"] and "1 passed, 1 not yet" in told
    assert "<caption>" in page and 'scope="row"' in page and 'scope="col"' in page


def _many(name: str, path: str) -> None:
    os.environ["TRANSFORMER_LAB_PROGRESS"] = path
    for _ in range(40):
        progress.record_hint(name)


def test_two_processes_at_once_lose_nothing(file):
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    names = ["a.one", "b.two", "a.one"]
    workers = [context.Process(target=_many, args=(name, str(file))) for name in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    found = stored(file)
    assert (found["a.one"]["hints"], found["b.two"]["hints"]) == (80, 40)


def _for_ever(path: str) -> None:
    os.environ["TRANSFORMER_LAB_PROGRESS"] = path
    while True:
        progress.record_hint("a.one")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the signal is POSIX's")
def test_a_killed_process_leaves_the_file_whole(file):
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    before = 0
    for wait in (0.05, 0.08, 0.11, 0.14, 0.17):
        worker = context.Process(target=_for_ever, args=(str(file),))
        worker.start()
        time.sleep(wait)
        os.kill(worker.pid, signal.SIGKILL)
        worker.join(30)
        now = stored(file)["a.one"]["hints"] if file.exists() else 0
        assert now >= before
        before = now
    assert before > 0
    assert progress.record_hint("a.one") == before + 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "other"}', "\x00\xff"])
def test_a_damaged_file_is_kept_aside_and_that_is_said(file, capsys, content):
    file.parent.mkdir()
    file.write_text(content, encoding="utf-8")
    check(ID, right)
    assert (file.parent / "progress-damaged-1.json").read_text("utf-8") == content
    assert "was kept as progress-damaged-1.json" in capsys.readouterr().err
    assert stored(file)[ID]["state"] == "passed"


def test_where_nothing_can_be_stored_that_is_said_once_and_checks_go_on(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "a file").write_text("", encoding="utf-8")
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path / "a file" / "progress.json"))
    check(ID, right)
    check(ID, wrong)
    told = capsys.readouterr()
    assert told.err.count("cannot be stored") == 1 and "TRANSFORMER_LAB_PROGRESS" in told.err
    assert "passed" in told.out and "the average left out" in told.out
    progress.record_guess("guess.spread", 32)
    assert progress.guessed("guess.spread").answer == 32  # for this session at least


def test_an_unattended_notebook_has_a_progress_of_its_own(monkeypatch):
    monkeypatch.delenv("TRANSFORMER_LAB_PROGRESS")
    monkeypatch.setenv("TRANSFORMER_LAB_UNATTENDED", "1")
    assert str(os.getpid()) in str(progress.progress_file())


# ---- From one computer to another -------------------------------------------------------


def test_what_is_exported_comes_back_and_twice_changes_nothing(file, tmp_path, capsys):
    check(ID, wrong)
    check(ID, right)
    progress.record_guess("guess.spread", 30)
    out = tmp_path / "out.json"
    progress.export(out, "Ada")
    before = file.read_text("utf-8")
    assert progress.import_(out) == 0
    assert json.loads(file.read_text("utf-8")) == json.loads(before)
    file.unlink()
    assert progress.import_(out) == 1
    assert stored(file)[ID]["state"] == "passed" and stored(file)[ID]["tries"] == 2
    assert progress.guessed("guess.spread").answer == 30


def test_the_further_state_wins_and_strange_exercises_are_kept(file, tmp_path):
    check(ID, right)
    theirs = json.loads(file.read_text("utf-8"))
    theirs["exercises"][ID] |= {"state": "not yet", "tries": 9, "passed": None}
    theirs["exercises"]["of.tomorrow"] = dict(theirs["exercises"][ID])
    (tmp_path / "theirs.json").write_text(json.dumps(theirs), encoding="utf-8")
    assert progress.import_(tmp_path / "theirs.json") == 1
    assert stored(file)[ID]["state"] == "passed" and stored(file)[ID]["tries"] == 9
    assert "of.tomorrow" in stored(file) and "another edition" in repr(my_progress())


BAD = {
    "no JSON": "hello",
    "a list": "[]",
    "another format": '{"format": "x"}',
    "a state": '{"state": "great"}',
    "a count": '{"tries": -1}',
    "a mistake": '{"misconceptions": {"x": "y"}}',
}


@pytest.mark.parametrize("what", BAD)
def test_a_strangers_file_is_refused_in_a_sentence(file, tmp_path, what):
    check(ID, right)
    content = json.loads(file.read_text("utf-8"))
    path = tmp_path / "theirs.json"
    if what in ("a state", "a count", "a mistake"):
        content["exercises"][ID] |= json.loads(BAD[what])
        path.write_text(json.dumps(content), encoding="utf-8")
    else:
        path.write_text(BAD[what], encoding="utf-8")
    before = file.read_text("utf-8")
    with pytest.raises(ValueError, match=r"theirs\.json is (no progress file|not JSON)"):
        progress.import_(path)
    assert file.read_text("utf-8") == before


def a_class(folder: Path, file: Path) -> None:
    """Three learners; one of them exported twice."""
    folder.mkdir()
    for name, answers in (("Ada", [wrong, right]), ("Bo", [wrong]), ("Cy", [])):
        file.unlink(missing_ok=True)
        hint("softmax.stable")
        for answer in answers:
            check(ID, answer)
        progress.export(folder / f"{name}.json", name)
        if name == "Bo":
            later = json.loads((folder / "Bo.json").read_text("utf-8"))
            later["exercises"][ID]["tries"] = 5
            later["exported"] = "2999-01-01T00:00:00+00:00"
            (folder / "Bo again.json").write_text(json.dumps(later), encoding="utf-8")
    (folder / "notes.json").write_text("not JSON", encoding="utf-8")


def test_a_class_is_summed_up(file, tmp_path):
    a_class(tmp_path / "class", file)
    first, second = tables.class_tables(tmp_path / "class")
    row = next(row for row in first.rows if row[0] == ID)
    assert row == (ID, "1", "1", "1", "3.5", "0", "the average left out (2)")
    assert [r[:4] for r in second.rows][:2] == [
        ("Ada", "1", "0", second.rows[0][3]),
        ("Bo", "0", "1", second.rows[1][3]),
    ]
    told = repr(first)
    assert "3 learners" in told and "notes.json is no progress file" in told
    assert "a second file of Bo" in told
    assert first.as_csv().splitlines()[0].startswith("exercise,passed,not yet,not started")


# ---- The command ------------------------------------------------------------------------


def run(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["transformer-lab", "progress", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_the_command_shows_exports_imports_and_sums_up(file, tmp_path, monkeypatch, capsys):
    a_class(tmp_path / "class", file)
    file.unlink()
    assert run(monkeypatch, "--import", str(tmp_path / "class" / "Ada.json")) == 0
    assert run(monkeypatch) == 0
    told = capsys.readouterr().out
    assert "1 passed" in told and str(file) in told
    assert run(monkeypatch, "--export", str(tmp_path / "e.json"), "--name", "Ada") == 0
    assert json.loads((tmp_path / "e.json").read_text("utf-8"))["name"] == "Ada"
    table = tmp_path / "t.csv"
    assert run(monkeypatch, "--folder", str(tmp_path / "class"), "--csv", str(table)) == 0
    assert "By learner" in capsys.readouterr().out and ID in table.read_text("utf-8")


@pytest.mark.parametrize(
    "words, said",
    [
        (("--export", "{}/a", "--folder", "{}"), "One thing at a time"),
        (("--name", "Ada"), "add --export FILE"),
        (("--csv", "{}/t.csv"), "add --folder FOLDER"),
        (("--folder", "{}"), "holds no exported file"),
        (("--folder", "{}/none"), "is no folder"),
        (("--import", "{}/none.json"), "none.json"),
        (("--export", "{}/a.json"), "There is nothing to export"),
    ],
)
def test_what_the_command_refuses_it_refuses_in_a_sentence(
    tmp_path, monkeypatch, capsys, words, said
):
    assert run(monkeypatch, *(w.format(tmp_path) for w in words)) == 1
    told = capsys.readouterr()
    assert said in told.err and told.err.count("\n") == 1 and "Traceback" not in told.err
    assert told.out == ""


def test_an_exercise_that_does_not_exist_is_refused_with_its_neighbours():
    with pytest.raises(ValueError, match=r"No exercise is called 'softmax.stabel'.*softmax.stable"):
        examine("softmax.stabel", right)
