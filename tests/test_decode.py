"""Greedy and beam search: against loops without a cache, every target there is, and trees."""

import math

import pytest
import torch
from decode_cases import Tree, all_targets, alone, best_first, teacher_forced
from helpers import SOURCE_SIZE, TARGET_SIZE, B, S, T, ragged, shake, targets, tiny_model

from transformer_lab.decode import Hypothesis, beam, greedy, next_log_probabilities
from transformer_lab.tokens import BOS, EOS, PAD

SOURCE = ragged(B, S, SOURCE_SIZE)
A, C, D, E = 3, 4, 5, 6


def model_that_ends(seed=0):
    """A tiny model that ends early for some sources, late or never for others.

    Random models repeat themselves for ever; strong positions and a strong EOS break that.
    """
    model = shake(tiny_model(seed, positions="learned"), seed + 9)
    with torch.no_grad():
        model.target_embedding.weight.mul_(0.3)
        model.target_embedding.weight[EOS].mul_(2)
        model.target_positions.table_nD.mul_(3)
    return model


def close(a, b):
    return a == pytest.approx(b, abs=2e-4)  # sums of at most 18 float32 logarithms


def test_the_next_distribution_is_the_models_own():
    """Cached, from padded sources, step by step; PAD and BOS never come, the rest stays as is."""
    model, said = tiny_model(), targets(B, T, TARGET_SIZE)
    state = model.start(SOURCE)
    for t in range(T):
        got = next_log_probabilities(model.step(said[:, t : t + 1], state))[:, 0]
        for b in range(B):
            expected = model(alone(SOURCE, b), said[b : b + 1, : t + 1])[0, -1].log_softmax(-1)
            assert got[b, [PAD, BOS]].tolist() == [-math.inf] * 2
            torch.testing.assert_close(got[b, EOS:].double(), expected[EOS:], atol=1e-5, rtol=0)


def naive_greedy(model, source_1S, steps):
    """The formula without cache and batch: likeliest symbol, append, once more from the start."""
    ids = []
    for _ in range(steps):
        with torch.inference_mode():
            logits = model(source_1S, torch.tensor([[BOS, *ids]]))[0, -1]
        best = max(range(EOS, model.config.target_size), key=lambda v: logits[v].item())
        if best == EOS:
            return tuple(ids), True
        ids.append(best)
    return tuple(ids), False


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_greedy_is_the_naive_loop(seed):
    model = model_that_ends(seed)
    found = greedy(model, SOURCE)
    assert len(found) == B
    for b, hypothesis in enumerate(found):
        expected = naive_greedy(model, alone(SOURCE, b), model.config.max_length - 1)
        assert (hypothesis.ids, hypothesis.finished) == expected
        score = teacher_forced(model, alone(SOURCE, b), *expected)
        assert close(hypothesis.log_probability, score)


def test_the_models_of_these_tests_give_targets_of_many_lengths():
    """Otherwise the comparisons above and below would compare little."""
    found = [h for seed in range(3) for h in greedy(model_that_ends(seed), SOURCE)]
    assert len({len(h.ids) for h in found}) > 8
    assert {h.finished for h in found} == {True, False}


@pytest.mark.parametrize("width", [1, 3])
def test_neighbours_and_padding_change_nothing(width):
    model = model_that_ends(1)
    wider = torch.nn.functional.pad(SOURCE, (0, 2))
    together, padded = beam(model, SOURCE, width), beam(model, wider, width)
    for b in range(B):
        single = beam(model, alone(SOURCE, b), width)[0]
        for batch in (together[b], padded[b]):
            assert [(h.ids, h.finished) for h in batch] == [(h.ids, h.finished) for h in single]
            assert all(close(x.log_probability, y.log_probability)
                       for x, y in zip(batch, single, strict=True))  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_as_wide_as_the_tree_finds_everything(seed):
    """All 31 targets of at most four steps over two symbols, in the right order."""
    model = tiny_model(seed, target_size=5)
    sources = ragged(3, 7, SOURCE_SIZE, seed)
    for alpha in (0.0, 0.8):
        for b, hypotheses in enumerate(beam(model, sources, 31, alpha, max_symbols=3)):
            found = all_targets(model, alone(sources, b), 4)
            assert len(found) == len(hypotheses) == 31
            assert [(h.ids, h.finished) for h in hypotheses] == best_first(found, alpha)
            assert all(close(h.log_probability, found[h.ids, h.finished]) for h in hypotheses)
            whole = sum(math.exp(h.log_probability) for h in hypotheses)
            assert whole < 1  # what is missing went to PAD and BOS


@pytest.mark.parametrize("width", [2, 3, 7])
def test_every_hypothesis_has_the_score_the_model_gives_it(width):
    """Reordered caches hold what their hypotheses said: scores equal teacher-forced ones."""
    model = model_that_ends(2)
    for b, hypotheses in enumerate(beam(model, SOURCE, width)):
        scores = [h.log_probability for h in hypotheses]
        assert len(hypotheses) == width and scores == sorted(scores, reverse=True)
        assert len({(h.ids, h.finished) for h in hypotheses}) == width
        for h in hypotheses:
            score = teacher_forced(model, alone(SOURCE, b), h.ids, h.finished)
            assert close(h.log_probability, score)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_width_one_is_greedy(seed):
    model = model_that_ends(seed)
    for one, many in zip(greedy(model, SOURCE), beam(model, SOURCE, 1), strict=True):
        assert len(many) == 1 and (many[0].ids, many[0].finished) == (one.ids, one.finished)
        assert close(many[0].log_probability, one.log_probability)


def garden_path(source, said):
    """A looks best (0.6) but splits; C (0.4) goes on for sure."""
    return {
        (): {A: 0.6, C: 0.4},
        (A,): {D: 0.55, E: 0.45},
        (C,): {D: 1.0},
    }.get(said, {EOS: 1.0})


def test_a_beam_finds_what_greedy_misses():
    model, source = Tree(garden_path, 7), torch.tensor([[8]])
    first = greedy(model, source)[0]
    assert first.ids == (A, D) and first.log_probability == pytest.approx(math.log(0.33))
    best = beam(model, source, 2)[0][0]
    assert best.ids == (C, D) and best.log_probability == pytest.approx(math.log(0.4))


def test_a_wide_beam_returns_what_exists_and_no_more():
    found = beam(Tree(garden_path, 7), torch.tensor([[8]]), 20)[0]
    assert [(h.ids, h.finished) for h in found] == [
        ((C, D), True),
        ((A, D), True),
        ((A, E), True),
    ]


def short_or_long(source, said):
    """Nothing at all with 0.5, A four times with 0.45, A and C with 0.05."""
    if said == ():
        return {EOS: 0.5, A: 0.5}
    if said == (A,):
        return {A: 0.9, C: 0.1}
    return {EOS: 1.0} if said in ((A, C), (A,) * 4) else {A: 1.0}


def test_what_is_finished_keeps_place_and_score_while_others_go_on():
    found = beam(Tree(short_or_long, 7), torch.tensor([[8]]), 3)[0]
    assert [(h.ids, h.finished) for h in found] == [
        ((), True), ((A,) * 4, True), ((A, C), True)]  # fmt: skip
    expected = [math.log(p) for p in (0.5, 0.45, 0.05)]
    assert [h.log_probability for h in found] == pytest.approx(expected)


def test_a_length_penalty_can_turn_the_order():
    """log 0.5 / 1 against log 0.45 / (10/6)^α: the longer wins from α = 0.28 on."""
    turning = math.log(math.log(0.45) / math.log(0.5)) / math.log(10 / 6)
    assert 0.27 < turning < 0.29
    for alpha, first in ((0.0, 0), (turning - 0.01, 0), (turning + 0.01, 4), (1.0, 4)):
        best = beam(Tree(short_or_long, 7), torch.tensor([[8]]), 3, alpha)[0][0]
        assert len(best.ids) == first
        # the score that is reported stays the model's
        assert best.log_probability == pytest.approx(math.log(0.45 if first else 0.5))


def by_source(source, said):
    """Another tree for each source; they end at different steps."""
    if len(said) == source - 8:
        return {EOS: 1.0}
    return {A: 0.7, C: 0.3} if source % 2 else {C: 0.7, D: 0.3}


@pytest.mark.parametrize("width", [1, 2, 5])
def test_sources_of_a_batch_do_not_mix(width):
    model, batch = Tree(by_source, 7), torch.tensor([[11], [8], [10], [9]])
    together = beam(model, batch, width)
    for row, found in zip(batch, together, strict=True):
        assert found == beam(model, row[None], width)[0]
    assert [len(found[0].ids) for found in together] == [3, 0, 2, 1]
    assert [h.ids for h in greedy(model, batch)] == [found[0].ids for found in together]


def test_decoding_stops_when_all_are_finished():
    for decode in (greedy, lambda m, s: beam(m, s, 8)):
        model = Tree(by_source, 7)
        decode(model, torch.tensor([[11], [8], [10]]))
        assert model.steps == 4  # three symbols and EOS


def even(source, said):
    """Four symbols, all equally likely, then EOS."""
    return {v: 0.25 for v in (A, C, D, E)} if len(said) < 2 else {EOS: 1.0}


def test_of_equally_likely_symbols_the_smallest_comes_first():
    """In greedy decoding, in a beam of width 1, and among the hypotheses of a wide one."""
    source = torch.tensor([[8]])
    assert greedy(Tree(even, 7), source)[0].ids == (A, A)
    assert beam(Tree(even, 7), source, 1)[0][0].ids == (A, A)
    assert [h.ids for h in beam(Tree(even, 7), source, 3)[0]] == [(A, A), (A, C), (A, D)]


def test_decoding_twice_gives_the_same():
    model = model_that_ends()
    assert beam(model, SOURCE, 5) == beam(model, SOURCE, 5)
    assert greedy(model, SOURCE) == greedy(model, SOURCE)


def endless(source, said):
    return {A: 0.5, C: 0.5 - 1e-3, EOS: 1e-3}


@pytest.mark.parametrize("most", [1, 2, 7, None])
def test_the_limit_leaves_room_for_eos_and_no_more(most):
    """``max_symbols`` symbols and EOS fit; what has not ended by then is marked unfinished."""
    steps = 8 if most is None else most + 1  # a model of 9 tokens, one of them BOS
    for decode in (greedy, lambda m, s, n: beam(m, s, 2, max_symbols=n)[0]):
        model = Tree(endless, 7)
        found = decode(model, torch.tensor([[8]]), most)[0]
        assert (model.steps, found.finished) == (steps, False)
        ends = Tree(lambda source, said: {EOS: 1.0} if len(said) == steps - 1 else {A: 1.0}, 7)
        full = Hypothesis((A,) * (steps - 1), 0.0, True)
        assert decode(ends, torch.tensor([[8]]), most)[0] == full


@pytest.mark.parametrize("decode", [greedy, beam])
def test_decoding_leaves_no_gradients_and_no_change(decode):
    model = tiny_model()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    decode(model, SOURCE)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.plain
@pytest.mark.parametrize("width", [0, -2, 201])
def test_a_beam_has_a_least_and_a_largest_width(width):
    with pytest.raises(ValueError, match=rf"1 to 200 wide, but got {width}; 5 is usual\."):
        beam(tiny_model(), SOURCE, width)


@pytest.mark.plain
@pytest.mark.parametrize("bad", [0, -1, 18])
def test_the_number_of_symbols_must_fit_the_model(bad):
    message = rf"lie between 1 and 17 \(the model takes 19 tokens\), but got {bad}; choose one"
    for decode in (greedy, beam):
        with pytest.raises(ValueError, match=message):
            decode(tiny_model(), SOURCE, max_symbols=bad)
