"""Looking inside a model: queries and keys of every head, and what their scores say."""

import copy
import math

import numpy as np
import pytest
import torch
from helpers import (
    DECODER_LAYERS,
    ENCODER_LAYERS,
    H,
    K,
    S,
    T,
    default_dtype,
    ragged,
    shake,
    tiny_model,
)

from transformer_lab import load
from transformer_lab.batches import pair_batch
from transformer_lab.models import DecoderOnly, DecoderOnlyConfig
from transformer_lab.norms import ARRANGEMENTS
from transformer_lab.positions import SCHEMES
from transformer_lab.pretrained.heads import head_inputs, head_statistics, untrained

B = 3
WORDS = {
    "knight": "N AY T", "through": "TH R UW", "phone": "F OW N", "xylophone": "Z AY L AH F OW N",
    "cat": "K AE T", "banana": "B AH N AE N AH", "nation": "N EY SH AH N", "queue": "K Y UW",
}  # fmt: skip
LINES = [
    "First Citizen:\nBefore we proceed any further, hear me speak.",
    "ROMEO:\nBut, soft! what light through yonder window breaks?",
]


def tiny(norm="pre", positions="sinusoidal"):
    """An encoder-decoder in float64 with ids of ragged sources and targets."""
    model = tiny_model(norm=norm, positions=positions)
    return model, ragged(B, T, 23, seed=1).clamp(max=22), ragged(B, S, 29, seed=2)


def tiny_decoder():
    with default_dtype(torch.float64):
        torch.manual_seed(0)
        model = DecoderOnly(DecoderOnlyConfig(23, H * K, H, 41, 3, max_length=T))
        return shake(model, 0, 0.1).eval(), ragged(B, T, 23, seed=1), None


def shipped(name):
    """A model of ours with what it reads: words with their phones, or lines of a play."""
    loaded = load(name)
    if name.startswith("lm"):
        ids = [loaded.vocabulary.encode(line[:48]) for line in LINES]
        assert len(set(map(len, ids))) == 1
        return loaded.model, torch.tensor(ids), None
    batch = pair_batch(
        [loaded.source.encode(word) for word in WORDS],
        [loaded.target.encode(phones.split()) for phones in WORDS.values()],
    )
    return loaded.model, batch.target_in_BT, batch.source_BS


def softmax_of_scores(found):
    """The weights anew from queries and keys, in NumPy: 0 where nothing meets."""
    scores = found.q_BHTK @ np.swapaxes(found.k_BHSK, -1, -2) / math.sqrt(found.q_BHTK.shape[-1])
    raised = np.exp(scores - scores.max(-1, keepdims=True)) * found.allowed_BTS[:, None]
    return raised / np.maximum(raised.sum(-1, keepdims=True), 1e-300)


def assert_weights_are_made_of_these(found, tolerance):
    asks_BT = found.allowed_BTS.any(-1)
    again, weights = softmax_of_scores(found), found.weights_BHTS
    assert np.abs(again - weights)[np.broadcast_to(asks_BT[:, None], weights.shape[:3])].max() < (
        tolerance
    )
    hidden = np.broadcast_to((asks_BT[..., None] & ~found.allowed_BTS)[:, None], weights.shape)
    assert (weights[hidden] == 0).all()


@pytest.mark.parametrize("positions", SCHEMES)
@pytest.mark.parametrize("norm", ARRANGEMENTS)
def test_weights_are_the_softmax_of_what_meets(norm, positions):
    inputs = head_inputs(*tiny(norm, positions))
    assert set(inputs) == (
        {f"encoder.{i}.self" for i in range(ENCODER_LAYERS)}
        | {f"decoder.{i}.{kind}" for i in range(DECODER_LAYERS) for kind in ("self", "cross")}
    )
    shapes = {"encoder.self": (S, S), "decoder.self": (T, T), "decoder.cross": (T, S)}
    for name, found in inputs.items():
        side, _, kind = name.split(".")
        queries, keys = shapes[f"{side}.{kind}"]
        assert found.name == name
        assert found.q_BHTK.shape == (B, H, queries, K) and found.k_BHSK.shape == (B, H, keys, K)
        assert found.allowed_BTS.any() and not found.allowed_BTS.all()
        assert_weights_are_made_of_these(found, 1e-13)


def test_a_decoder_alone_too():
    inputs = head_inputs(*tiny_decoder())
    assert list(inputs) == [f"layers.{i}.self" for i in range(3)]
    for found in inputs.values():
        assert_weights_are_made_of_these(found, 1e-13)


@pytest.mark.parametrize("name", ["g2p-class", "g2p-lab", "lm-lab"])
def test_the_models_that_ship(name):
    inputs = head_inputs(*shipped(name))
    kinds = {n.split(".")[0] + "." + n.split(".")[2] for n in inputs}
    assert kinds == ({"layers.self"} if name == "lm-lab" else
                     {"encoder.self", "decoder.self", "decoder.cross"})  # fmt: skip
    for found in inputs.values():
        assert found.q_BHTK.dtype == np.float64
        assert_weights_are_made_of_these(found, 2e-5)  # the model itself computes in float32


def test_who_meets_whom():
    model, tokens, source = tiny()
    inputs = head_inputs(model, tokens, source)
    asks, reads = (tokens != 0).numpy(), (source != 0).numpy()
    causal = np.tril(np.ones((T, T), dtype=bool))
    assert (inputs["encoder.1.self"].allowed_BTS == reads[:, :, None] & reads[:, None]).all()
    assert (inputs["decoder.2.self"].allowed_BTS == asks[:, :, None] & causal).all()
    assert (inputs["decoder.0.cross"].allowed_BTS == asks[:, :, None] & reads[:, None]).all()
    single = head_inputs(model, tokens[:, :1], source[:, :1].clamp(min=3))
    assert all(found.allowed_BTS.shape == (B, 1, 1) for found in single.values())
    assert all(found.allowed_BTS.all() for found in single.values())


def test_looking_leaves_nothing_behind():
    model, tokens, source = tiny()
    before, state = model(source, tokens), copy.deepcopy(model.state_dict())
    head_inputs(model, tokens, source)
    assert torch.equal(model(source, tokens), before)
    assert all(torch.equal(a, b) for a, b in zip(state.values(), model.state_dict().values(),
                                                  strict=True))  # fmt: skip
    hooks = [m._forward_hooks or m._forward_pre_hooks for m in model.modules()]
    assert not any(hooks)
    assert all(not hasattr(m, "trace") for m in model.modules())


def test_padding_takes_no_part():
    """Three more columns of padding on either side change no statistic of any head."""
    model, tokens, source = tiny()
    tokens, source = tokens[:, : T - 3], source[:, : S - 5]
    tokens[:, 0], source[:, 0] = 1, 4  # no row is empty
    wide = [torch.nn.functional.pad(ids, (0, 2)) for ids in (tokens, source)]
    plain = head_statistics(head_inputs(model, tokens, source))
    padded = head_statistics(head_inputs(model, *wide))
    assert len(plain) == len(padded) == H * (ENCODER_LAYERS + 2 * DECODER_LAYERS)
    for a, b in zip(plain, padded, strict=True):
        assert (a.attention, a.head) == (b.attention, b.head)
        for part in ("all_pairs", "meeting"):
            x, y = vars(getattr(a, part)), vars(getattr(b, part))
            for field, value in x.items():
                values = [vars(v) if hasattr(v, "top") else {field: v} for v in (value, y[field])]
                assert values[0] == pytest.approx(values[1], rel=1e-9, abs=1e-9), field


def test_each_head_has_its_own_statistics():
    model, tokens, source = tiny()
    inputs = head_inputs(model, tokens, source)
    found = {(s.attention, s.head): s for s in head_statistics(inputs)}
    real = (source != 0).numpy()
    for head in range(H):
        q, k = (x[:, head][real] for x in (inputs["encoder.0.self"].q_BHTK,
                                           inputs["encoder.0.self"].k_BHSK))  # fmt: skip
        one = found["encoder.0.self", head]
        assert one.all_pairs.variance == pytest.approx((q @ k.T).var(), rel=1e-12)
        assert one.all_pairs.variance_covariance == pytest.approx(one.all_pairs.variance, rel=1e-9)
        assert one.meeting.pairs == (real.sum(1) ** 2).sum()
    assert len({round(s.all_pairs.variance, 9) for s in found.values()}) == len(found)


@pytest.mark.parametrize("name", ["g2p-class", "g2p-lab", "lm-lab"])
def test_a_fresh_model_is_near_what_the_paper_assumes_and_a_trained_one_is_far(name):
    model, tokens, source = shipped(name)
    ratios = {}
    for kind, one in (("trained", model), ("fresh", untrained(model))):
        rows = head_statistics(head_inputs(one, tokens, source))
        ratios[kind] = np.array([r.all_pairs.variance / r.all_pairs.d_k for r in rows])
    assert 0.6 < np.median(ratios["fresh"]) < 1.3 and ratios["fresh"].max() < 2
    assert np.median(ratios["trained"]) > 5 and ratios["trained"].max() > 20


def test_untrained_models_have_the_same_shape_and_are_the_same_each_time():
    model = load().model
    state = torch.random.get_rng_state()
    one, two, other = untrained(model, 3), untrained(model, 3), untrained(model, 4)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not one.training
    shapes = [{k: v.shape for k, v in m.state_dict().items()} for m in (model, one)]
    assert shapes[0] == shapes[1]
    weights = [m.encoder[0].attention.qkv.weight for m in (one, two, other, model)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2]) and not torch.equal(weights[0], weights[3])


@pytest.mark.plain
def test_what_cannot_be_looked_at():
    model, tokens, source = tiny()
    with pytest.raises(ValueError, match=r"EncoderDecoder and there is no source; give source_BS"):
        head_inputs(model, tokens)
    with pytest.raises(ValueError, match=r"DecoderOnly and there is a source; leave source_BS"):
        head_inputs(tiny_decoder()[0], tokens, source)
    with pytest.raises(ValueError, match=r"in training; call model.eval\(\) first"):
        head_inputs(model.train(), tokens, source)
