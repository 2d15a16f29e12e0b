"""The decoder-only model and its task: windows, losses, causality, runs that go on."""

from __future__ import annotations

import math
import os
import signal

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from transformer_lab import runs
from transformer_lab.batches import random_windows
from transformer_lab.data.text import TextData
from transformer_lab.models import DecoderOnly, DecoderOnlyConfig
from transformer_lab.tasks import LM
from transformer_lab.train import Stopped

TEXT = "the quick brown fox jumps over the lazy dog.\nand then it sleeps!\n" * 23


@pytest.fixture
def task():
    return LM(TextData(TEXT[:1200], TEXT[1200:]), context=11)


def model_for(task, **changes):
    torch.manual_seed(3)
    sizes = {"d_model": 14, "h": 2, "d_ff": 17, "layers": 2} | changes
    return DecoderOnly(DecoderOnlyConfig(len(task.vocabulary), max_length=task.context, **sizes))


def test_windows_are_shifted_by_one_and_fixed_by_seed_and_epoch():
    text = torch.arange(100, 200)
    batches = list(random_windows(text, 7, 3, seed=1, epoch=0))
    assert len(batches) == 100 // 21
    for batch in batches:
        assert batch.input_BT.shape == (3, 7)
        assert torch.equal(batch.target_BT, batch.input_BT + 1)
    again = next(random_windows(text, 7, 3, seed=1, epoch=0))
    other = next(random_windows(text, 7, 3, seed=1, epoch=1))
    assert torch.equal(batches[0].input_BT, again.input_BT)
    assert not torch.equal(batches[0].input_BT, other.input_BT)


def test_every_start_of_a_window_can_be_drawn():
    drawn = {
        int(start)
        for epoch in range(60)
        for batch in random_windows(torch.arange(12), 5, 2, 1, epoch)
        for start in batch.input_BT[:, 0]
    }
    assert drawn == set(range(7))


def test_nothing_later_is_seen(task):
    model = model_for(task).eval().double()
    a = torch.randint(3, len(task.vocabulary), (2, 11))
    b = a.clone()
    b[:, 6:] = torch.randint(3, len(task.vocabulary), (2, 5))
    assert torch.equal(model(a)[:, :6], model(b)[:, :6])
    assert not torch.allclose(model(a)[:, 6:], model(b)[:, 6:])


def test_equals_torchs_own_layers_with_the_same_weights(task):
    model = model_for(task).eval().double()
    layer = nn.TransformerEncoderLayer(
        14, 2, 17, 0.0, "gelu", batch_first=True, norm_first=True, dtype=torch.float64
    )
    x = torch.randint(3, len(task.vocabulary), (3, 11))
    h = model.embedding(x) * math.sqrt(14) + model.positions.table_nD[:11]
    for own in model.layers:
        theirs = {
            "self_attn.in_proj_weight": own.attention.qkv.weight,
            "self_attn.in_proj_bias": own.attention.qkv.bias,
            "self_attn.out_proj.weight": own.attention.out.weight,
            "self_attn.out_proj.bias": own.attention.out.bias,
            "linear1.weight": own.feed_forward.inner.weight,
            "linear1.bias": own.feed_forward.inner.bias,
            "linear2.weight": own.feed_forward.outer.weight,
            "linear2.bias": own.feed_forward.outer.bias,
            "norm1.weight": own.around_attention.norm.gamma_D,
            "norm1.bias": own.around_attention.norm.beta_D,
            "norm2.weight": own.around_feed_forward.norm.gamma_D,
            "norm2.bias": own.around_feed_forward.norm.beta_D,
        }
        layer.load_state_dict(theirs)
        mask = nn.Transformer.generate_square_subsequent_mask(11, dtype=torch.float64)
        h = layer(h, src_mask=mask)
    h = F.layer_norm(h, (14,), model.norm.gamma_D, model.norm.beta_D)
    assert torch.allclose(model(x), h @ model.embedding.weight.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("context", [11, 8])
def test_each_held_out_character_counts_once_with_half_a_window_before_it(context):
    task = LM(TextData(TEXT[:1200], TEXT[1200:1300]), context)
    model = model_for(task).eval()
    ids = task.vocabulary.encode(task.data.held_out)
    losses = []
    for place in range(1, len(ids)):
        if place <= context:  # the first window
            start = 0
        else:  # the window whose second half holds this character
            stride, skip = context // 2, context - context // 2
            start = stride * ((place - skip - 1) // stride)
            assert place - start > skip >= context / 2
        seen = torch.tensor([ids[start:place]])
        losses.append(-float(model(seen)[0, -1].log_softmax(-1)[ids[place]].detach()))
    judged = task.judge(model, "dev", None)
    assert judged["dev_loss"] == pytest.approx(sum(losses) / len(losses), abs=1e-5)
    assert judged["dev_bits"] == pytest.approx(judged["dev_loss"] / math.log(2))


def test_on_the_way_windows_from_the_whole_text_are_judged():
    task = LM(TextData(TEXT[:1200], TEXT[1200:1300]), 8)
    model = model_for(task).eval()
    seen = []
    model.register_forward_hook(lambda _, given, out: seen.append(given[0].shape))
    first = task.judge(model, "dev", 4)["dev_loss"]
    assert sum(shape[0] for shape in seen) == 4 + 1  # the first window counts in both its halves
    starts, ids = [0, 24, 48, 72], task.vocabulary.encode(task.data.held_out)  # of 0, 4, … 92
    losses = []
    for start in starts:
        log_p = model(torch.tensor([ids[start : start + 8]]))[0].log_softmax(-1).detach()
        for place in range(1 if start == 0 else 5, 9):
            losses.append(-float(log_p[place - 1, ids[start + place]]))
    assert first == pytest.approx(sum(losses) / len(losses), abs=1e-5)
    everything = task.judge(model, "dev", None)
    assert task.judge(model, "dev", 10_000) == everything


def test_a_readers_text_trains_stops_and_goes_on_bit_for_bit(tmp_path):
    text = tmp_path / "mine.txt"
    text.write_text(TEXT, encoding="utf-8")
    whole = runs.new_lm(tmp_path / "whole", "test", {"steps": 40}, text)
    records = runs.perform(whole, "cpu")
    assert records[-1]["dev_loss"] < records[0]["loss"] - 0.5

    part = runs.new_lm(tmp_path / "part", "test", {"steps": 40}, text)

    def stop(step):
        if step == 23:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped):
        runs.perform(part, "cpu", on_step=stop)
    runs.perform(runs.reopen_lm(tmp_path / "part"), "cpu", resume=True)
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "part")]
    assert weights[0] == weights[1]
    assert "nats" in runs.summary(whole)


@pytest.mark.plain
def test_messages_name_the_rule_and_both_values(task):
    with pytest.raises(ValueError, match="at most 11 tokens, but this one holds 12"):
        model_for(task)(torch.zeros(1, 12, dtype=torch.long))
    with pytest.raises(ValueError, match="50 tokens and a window holds 50"):
        next(random_windows(torch.arange(50), 50, 2, 1, 1))
    with pytest.raises(ValueError, match="batch_size = 0"):
        next(random_windows(torch.arange(50), 5, 0, 1, 1))
    with pytest.raises(ValueError, match="holds 64 characters and the shorter part 60"):
        LM(TextData("ab" * 100, "a" * 60), 64)
    with pytest.raises(ValueError, match="at least 2 characters, but context = 1"):
        LM(TextData("ab" * 100, "ab" * 100), 1)
    with pytest.raises(ValueError, match="layers must be a whole number of at least 1, but got 0"):
        DecoderOnlyConfig(9, layers=0)
    with pytest.raises(ValueError, match="h = 5 and d_model = 96"):
        DecoderOnlyConfig(9, h=5)
