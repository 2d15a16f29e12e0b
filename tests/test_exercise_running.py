"""A reader's function, whatever it does, ends in a sentence: never a traceback, never a hang."""

from __future__ import annotations

import functools
import sys
import time

import numpy as np
import pytest
import torch

from transformer_lab.exercises import NOT_STARTED, REFUSED, examine, running
from transformer_lab.exercises.message import text
from transformer_lab.exercises.running import Gap, call, untouched

pytestmark = pytest.mark.plain
ONE = (np.array([1.0, 2.0]),)


def raises_in_a_line(x):
    y = x + 1
    return y @ np.ones(7)


def test_an_error_is_one_line_with_the_readers_own_line_and_its_text():
    trouble = call(raises_in_a_line, ONE).trouble
    line = raises_in_a_line.__code__.co_firstlineno + 2
    assert trouble.startswith(f"It stopped with ValueError in line {line}, `return y @ np.ones(7)`")
    assert "\n" not in trouble and "Traceback" not in trouble


def test_an_error_deep_in_a_library_names_the_readers_line_all_the_same():
    def answer(x):
        return np.linalg.inv(np.zeros((2, 2)))

    trouble = call(answer, ONE).trouble
    assert "LinAlgError" in trouble and "np.linalg.inv(np.zeros((2, 2)))" in trouble


def test_in_a_cell_of_a_notebook_the_line_is_that_of_the_cell():
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        cell = "def answer(x):\n    y = 2 * x\n    return y.no_such_thing\n"
        shell.run_cell(cell, store_history=True)
        trouble = call(shell.user_ns["answer"], ONE).trouble
    finally:
        InteractiveShell.clear_instance()
    assert "AttributeError in line 3, `return y.no_such_thing`" in trouble


def endless(x):
    while True:
        x = x + 0


def stubborn(x):
    while True:
        try:
            x = x + 0
        except Exception:
            continue


@pytest.mark.parametrize("answer", [endless, stubborn])
def test_an_endless_answer_is_stopped(answer):
    begun = time.monotonic()
    outcome = call(answer, ONE, seconds=0.5)
    assert "was stopped after 0.5 s" in outcome.trouble
    assert time.monotonic() - begun < 30


def counts(x):
    k = 0
    while True:
        yield k
        k += 1


def deep(x):
    x = [1.0]
    for _ in range(1000):
        x = [x]
    return x


@pytest.mark.parametrize(
    "answer, said",
    [
        (counts, "does not end"),
        (deep, "20 deep"),
        (lambda x: 10 ** 4000, "binary digits"),
        (lambda x: np.broadcast_to(1.0, (10**6, 10**6)), "numbers"),
        (lambda x: [0] * 3_000_000, "numbers"),
        (lambda x: torch.zeros(1).expand(10**5, 10**5), "numbers"),
        (lambda x: range(10**12), "does not end"),
    ],
)  # fmt: skip
def test_an_enormous_answer_is_not_even_copied(answer, said):
    outcome = call(answer, ONE)
    assert said in outcome.trouble and "more than was asked for" in outcome.trouble


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what a process allocates")
@pytest.mark.parametrize("make", [np.ones, torch.ones, lambda n: [0.0] * n])
def test_an_answer_that_asks_for_gigabytes_is_stopped(make):
    outcome = call(lambda x: make(10**10), ONE)
    assert outcome.trouble == "It was stopped: it asked for gigabytes."
    assert np.ones(10**7).sum() == 10**7  # the limit is gone afterwards


def forever(x):
    return forever(x)


@pytest.mark.parametrize(
    "answer, said",
    [
        (forever, "calls itself without end"),
        (lambda x: sys.exit(3), "ended Python"),
        (lambda: 1, "argument"),
        (lambda x, y: 1, "argument"),
        (lambda x: print(x), "returns nothing: end it with `return`"),
        (lambda x: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_other_troubles_are_told_in_words(answer, said):
    trouble = call(answer, ONE).trouble
    assert said in trouble and trouble.startswith("It ")


def raises_not_implemented(x):
    raise NotImplementedError


@pytest.mark.parametrize(
    "answer",
    [raises_not_implemented, lambda x: x + ..., lambda x: -(...), lambda x: (..., x)[0]],
)
def test_what_is_not_written_yet_is_a_gap(answer):
    with pytest.raises(Gap):
        call(answer, ONE)


def only_a_docstring(x):
    """Words."""


def only_pass(x):
    pass


def only_dots(x): ...


@pytest.mark.parametrize("answer", [only_a_docstring, only_pass, only_dots, lambda x: ...])
def test_templates_are_untouched(answer):
    assert untouched(answer)
    assert examine("softmax.stable", answer).state == NOT_STARTED


@pytest.mark.parametrize("answer", [lambda x: 0, lambda x: "…", lambda x: x, len, np.exp])
def test_answers_are_not(answer):
    assert not untouched(answer)
    assert examine("softmax.stable", answer).state == REFUSED


def test_nothing_that_it_prints_or_warns_of_is_seen(capsys, recwarn):
    def answer(x):
        print("here I am")
        print("and here", file=sys.stderr)
        return np.log(-x)

    assert np.isnan(call(answer, ONE).value).all()
    told = capsys.readouterr()
    assert told.out == told.err == "" and len(recwarn) == 0


def test_arguments_are_copies_and_a_change_is_noticed_and_named():
    def answer(s, g):
        g -= (g * s).sum(-1, keepdims=True)
        g *= s
        return g

    mine = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])
    outcome = call(answer, mine)
    assert outcome.changed == 2 and mine[1].tolist() == [[1.0, 0.0]]
    verdict = examine("softmax.backward", answer)
    assert verdict.state == REFUSED and "changes its argument `g` in place" in verdict.says


def test_the_arguments_may_be_looked_at_in_torch():
    def answer(x):
        e = (x - x.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True)

    assert examine("softmax.stable", answer).passed


def loops(x):
    rows = []
    for row in x.reshape(-1, x.shape[-1]).tolist():
        top = max(row)
        e = [2.718281828459045 ** (z - top) for z in row]
        rows.append([z / sum(e) for z in e])
    return rows


class Callable:
    """An answer with a state of its own."""

    def __call__(self, x):
        return loops(x)

    def method(self, x):
        return loops(x)


@pytest.mark.parametrize(
    "answer",
    [
        loops,
        Callable(),
        Callable().method,
        functools.partial(torch.softmax, dim=-1),
        lambda x: torch.softmax(torch.tensor(x), -1).numpy(),
        lambda x: torch.softmax(torch.tensor(x, dtype=torch.float32), -1),
        lambda x: torch.softmax(torch.tensor(x, requires_grad=True), -1),
        lambda x: [torch.softmax(row, -1) for row in torch.tensor(x)],
        lambda x: np.einsum("ij->ij", np.array(loops(x))),
    ],
)
def test_right_answers_of_every_kind_are_taken(answer):
    verdict = examine("softmax.stable", answer)
    assert verdict.passed, text(verdict)


@pytest.mark.parametrize("answer", [3, "softmax", np.ones(3), [1, 2]])
def test_a_value_where_a_function_is_asked_for(answer):
    verdict = examine("softmax.stable", answer)
    assert verdict.state == REFUSED and "the function itself" in verdict.says


def test_a_limit_of_memory_that_was_there_before_is_kept():
    if sys.platform != "linux":
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    call(lambda x: x, ONE)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert running.MEMORY > 2**30
