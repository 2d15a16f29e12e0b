"""Writing: cached equals uncached equals the plainest loop; seeds, stops, windows, refusals."""

import pytest
import torch
from lm_cases import SIZE, naive, tiny_decoder

from transformer_lab.decode import GREEDY, Greedy, Strategy, TopK, generate, sampling, stream

PROMPTS = [[3, 9, 4], [7, 8, 9, 10, 11, 30, 5], [6], [12, 13, 29, 3, 3]]
EQUAL = [[3, 9, 4], [7, 30, 11]]


def likeliest(logits_V, ids):
    return int(logits_V.argmax())


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("prompts", [PROMPTS, EQUAL], ids=["unequal", "equal"])
@pytest.mark.parametrize("cache", [True, False])
def test_a_batch_with_or_without_cache_is_the_plain_loop(positions, prompts, cache):
    """Within the window: each text as if it were alone."""
    model = tiny_decoder(positions=positions)
    found = generate(model, prompts, 12, cache=cache)
    assert found == [naive(model, prompt, 12, likeliest) for prompt in prompts]
    assert len({tuple(answer) for answer in found}) > 1


@pytest.mark.parametrize("length", [19, 20, 21, 57])
def test_a_full_window_keeps_its_last_half(length):
    model = tiny_decoder()
    expected = naive(model, PROMPTS[0], length, likeliest)
    assert generate(model, PROMPTS[:1], length) == [expected]
    assert generate(model, PROMPTS[:1], length, cache=False) == [expected]


@pytest.mark.parametrize("prompts", [PROMPTS, EQUAL], ids=["unequal", "equal"])
def test_cached_is_uncached_beyond_the_window(prompts):
    """Also with unequal prompts, where the padding leaves the window at some point."""
    model = tiny_decoder()
    cached, anew = (generate(model, prompts, 61, cache=c) for c in (True, False))
    assert cached == anew and all(len(answer) == 61 for answer in cached)


@pytest.mark.parametrize("more", [18, 19, 20, 40])
def test_a_prompt_longer_than_the_window_counts_by_its_end(more):
    model, prompt = tiny_decoder(), [3 + (7 * i) % 28 for i in range(more)]
    expected = naive(model, prompt, 5, likeliest)
    assert generate(model, [prompt], 5) == generate(model, [prompt], 5, cache=False) == [expected]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_the_same_seed_writes_the_same_and_another_something_else():
    model, strategy = tiny_decoder(), sampling(1.3)
    one, again, other = (generate(model, PROMPTS, 30, strategy, seeded(s)) for s in (5, 5, 6))
    assert one == again != other
    assert generate(model, PROMPTS, 30, strategy, seeded(5), cache=False) == one


def test_draws_follow_the_models_distribution():
    """Ten thousand first tokens: relative frequencies within four standard errors."""
    model, n = tiny_decoder(), 10_000
    with torch.no_grad():
        logits_1V = model(torch.tensor([PROMPTS[0]]))[:, -1]
    logits_1V[:, :2] = -torch.inf
    strategy = sampling(0.8, top_k=7)
    p_V = strategy.distribution(logits_1V, torch.tensor([PROMPTS[0]]))[0]
    found = generate(model, [PROMPTS[0]] * n, 1, strategy, seeded(3))
    counts_V = torch.bincount(torch.tensor(found).flatten(), minlength=SIZE)
    error_V = (n * p_V * (1 - p_V)).sqrt()
    assert ((counts_V - n * p_V).abs() <= 4 * error_V + 1e-9).all()
    assert (counts_V > 0).sum() == 7


def test_padding_and_begin_are_never_written():
    model = tiny_decoder()
    with torch.no_grad():
        model.embedding.weight[:2] *= 30  # otherwise the likeliest of all
    for strategy in (GREEDY, sampling(5.0)):
        found = generate(model, PROMPTS, 40, strategy, seeded(1))
        assert min(min(answer) for answer in found) > 1


def test_what_never_comes_is_said_by_the_caller():
    model = tiny_decoder()
    banned = generate(model, PROMPTS, 12)[0][0]
    found = generate(model, PROMPTS, 12, never=(0, 1, banned))
    assert banned not in {i for answer in found for i in answer}
    with torch.no_grad():
        model.embedding.weight[0] *= 60
    assert 0 in generate(model, PROMPTS[:1], 12, sampling(3.0), seeded(1), never=())[0]


class Scripted(Greedy):
    """A strategy that says what stands in the script, a column each step."""

    def __init__(self, *columns):
        self.__dict__.update(columns=list(columns), histories=[])  # it is frozen

    def draw(self, logits_BV, history_BT, generator):
        self.histories.append(history_BT.clone())
        return torch.tensor(self.columns.pop(0))


def test_stopping_ends_one_text_and_not_the_others():
    script = Scripted([5, 6], [9, 7], [8, 9], [8, 8])
    found = generate(tiny_decoder(), EQUAL, 30, script, stop=(9, 11))
    assert found == [[5, 9], [6, 7, 9]]  # the token that stops is the last of the answer
    assert script.columns == [[8, 8]]  # and nothing is computed after the last has stopped


def test_a_strategy_hears_the_whole_window():
    script = Scripted(*[[4 + i] * 2 for i in range(6)])
    generate(tiny_decoder(), [[3, 9, 4], [7]], 6, script)
    assert script.histories[0].tolist() == [[3, 9, 4], [0, 0, 7]]
    assert script.histories[3].tolist() == [[3, 9, 4, 4, 5, 6], [0, 0, 7, 4, 5, 6]]


def test_top_one_is_greedy():
    model = tiny_decoder()
    one = generate(model, PROMPTS, 15, Strategy((TopK(1),)), seeded(2))
    assert one == generate(model, PROMPTS, 15)


def test_writing_leaves_the_model_as_it_was():
    model = tiny_decoder()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    generate(model, PROMPTS, 25)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


@pytest.mark.plain
@pytest.mark.parametrize(
    ("prompts", "length", "message"),
    [
        ([], 5, r"at least one prompt, each of at least one token, but got 0, the shortest"),
        ([[3], []], 5, r"but got 2, the shortest of length 0; give the model something to"),
        ([[3]], 0, r"max_new must be at least 1, but got 0"),
        ([[3, 31]], 5, r"between 0 and 30 \(the vocabulary has 31 symbols\), but got 31; was"),
        ([[3, -2]], 5, r"between 0 and 30 .* but got -2;"),
        ([[3, 0]], 5, r"A prompt holds no padding \(id 0\)"),
    ],
)
def test_what_cannot_be_continued_is_refused(prompts, length, message):
    with pytest.raises(ValueError, match=message):
        generate(tiny_decoder(), prompts, length)


def test_a_stream_gives_each_token_before_the_next_is_computed():
    """As many steps of the model as tokens were asked for, and None for a text that has ended."""
    model, asked = tiny_decoder(), []
    step = model.step
    model.step = lambda ids_BT, state: (asked.append(ids_BT.shape[1]), step(ids_BT, state))[1]
    whole = generate(model, PROMPTS, 9)
    ends = {whole[0][3]}
    asked.clear()
    tokens = stream(model, PROMPTS, 9, stop=list(ends))
    assert asked == []
    columns = []
    for column in tokens:
        columns.append(column)
        assert len(asked) == len(columns)
        assert not torch.is_inference_mode_enabled()
    found = [[t for t in row if t is not None] for row in zip(*columns, strict=True)]
    assert found == generate(model, PROMPTS, 9, stop=list(ends))
    assert len(found[0]) <= 4 and found[0][-1] in ends and columns[-1][0] is None


@pytest.mark.plain
def test_a_stream_is_refused_before_it_is_read():
    with pytest.raises(ValueError, match="at least one prompt"):
        stream(tiny_decoder(), [], 5)
