"""The encoder-decoder as a whole: torch.nn.Transformer with the same weights, and its promises."""

import math

import pytest
import torch
from helpers import (
    DECODER_LAYERS,
    ENCODER_LAYERS,
    MAX_LENGTH,
    SOURCE_SIZE,
    TARGET_SIZE,
    B,
    D,
    F,
    H,
    S,
    T,
    copy_norm,
    default_dtype,
    ragged,
    randn,
    targets,
    tiny_config,
    tiny_model,
    torch_decoder_layer,
    torch_encoder_layer,
)
from torch import nn

from transformer_lab.models import EncoderDecoder, ModelConfig
from transformer_lab.norms import ARRANGEMENTS
from transformer_lab.positions import SCHEMES, sinusoidal_table

SOURCE, TARGET = ragged(B, S, SOURCE_SIZE), targets(B, T, TARGET_SIZE)


def torchs_transformer(ours: EncoderDecoder) -> nn.Transformer:
    """torch.nn.Transformer with the weights of ``ours``."""
    norm, activation = ours.config.norm, ours.config.activation
    finals = [nn.LayerNorm(D, dtype=torch.float64) if norm == "pre" else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        torch_encoder_layer(ours.encoder[0], norm, activation),
        ENCODER_LAYERS,
        finals[0],
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        torch_decoder_layer(ours.decoder[0], norm, activation), DECODER_LAYERS, finals[1]
    )
    theirs = nn.Transformer(
        D, H, dropout=0.0, batch_first=True, custom_encoder=encoder, custom_decoder=decoder
    )
    # only now: the constructor draws all weights anew
    for i, layer in enumerate(ours.encoder):
        theirs.encoder.layers[i] = torch_encoder_layer(layer, norm, activation)
    for i, layer in enumerate(ours.decoder):
        theirs.decoder.layers[i] = torch_decoder_layer(layer, norm, activation)
    if norm == "pre":
        copy_norm(ours.encoder_norm, theirs.encoder.norm)
        copy_norm(ours.decoder_norm, theirs.decoder.norm)
    return theirs.train()


def torchs_logits(ours: EncoderDecoder, source, target):
    """Embeddings and logits from the paper's text, everything between them from torch."""
    with default_dtype(torch.float64):
        waves = sinusoidal_table(MAX_LENGTH, D)
    x = nn.functional.embedding(source, ours.source_embedding.weight) * math.sqrt(D)
    y = nn.functional.embedding(target, ours.target_embedding.weight) * math.sqrt(D)
    if ours.config.positions == "learned":
        tables = ours.source_positions.table_nD, ours.target_positions.table_nD
    else:
        tables = waves, waves
    hidden = torchs_transformer(ours)(
        x + tables[0][: source.shape[1]],
        y + tables[1][: target.shape[1]],
        tgt_mask=torch.ones(target.shape[1], target.shape[1]).triu(1).bool(),
        src_key_padding_mask=source == 0,
        memory_key_padding_mask=source == 0,
    )
    return hidden @ ours.target_embedding.weight.T


@pytest.mark.parametrize("norm", ARRANGEMENTS)
@pytest.mark.parametrize("positions", SCHEMES)
def test_the_whole_model_is_torchs(norm, positions):
    ours = tiny_model(norm=norm, positions=positions)
    got = ours(SOURCE, TARGET)
    assert got.shape == (B, T, TARGET_SIZE)
    torch.testing.assert_close(got, torchs_logits(ours, SOURCE, TARGET), atol=1e-12, rtol=0)


def test_a_gelu_model_too():
    ours = tiny_model(activation="gelu")
    expected = torchs_logits(ours, SOURCE, TARGET)
    torch.testing.assert_close(ours(SOURCE, TARGET), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("norm", ARRANGEMENTS)
def test_gradients_are_torchs(norm):
    """The shared embedding gets its two gradients: from below and from the logits."""
    ours = tiny_model(norm=norm)
    weights = [
        ours.source_embedding.weight,
        ours.target_embedding.weight,
    ]
    cotangent = randn(B, T, TARGET_SIZE, seed=3)
    pairs = [(ours(SOURCE, TARGET) * cotangent).sum()]
    pairs.append((torchs_logits(ours, SOURCE, TARGET) * cotangent).sum())
    mine, wanted = (torch.autograd.grad(loss, weights) for loss in pairs)
    for a, b in zip(mine, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-11)


@pytest.mark.parametrize("norm", ARRANGEMENTS)
def test_nothing_leaks_from_the_future(norm):
    """Change target token t: the logits before t stay, those from t on move."""
    ours = tiny_model(norm=norm)
    before = ours(SOURCE, TARGET)
    for t in range(1, T):
        changed = TARGET.clone()
        changed[:, t] = 3 + (TARGET[:, t] - 2) % (TARGET_SIZE - 3)
        moved = (ours(SOURCE, changed) - before).abs().amax((0, 2))
        assert (moved[:t] < 1e-13).all() and (moved[t:] > 1e-6).all()


def test_every_letter_of_the_source_is_heard():
    ours = tiny_model()
    before = ours(SOURCE, TARGET)
    for s in range(S):
        real = SOURCE[:, s] != 0
        changed = SOURCE.clone()
        changed[real, s] = 3 + (SOURCE[real, s] - 2) % (SOURCE_SIZE - 3)
        moved = (ours(changed, TARGET) - before).abs().amax((1, 2))
        assert (moved[real] > 1e-6).all() and (moved[~real] < 1e-13).all()


def test_padding_a_source_changes_nothing():
    ours = tiny_model()
    together = ours(SOURCE, TARGET)
    longer = nn.functional.pad(SOURCE, (0, MAX_LENGTH - S))
    torch.testing.assert_close(ours(longer, TARGET), together, atol=1e-12, rtol=0)
    for b in range(B):
        alone = SOURCE[b : b + 1, : int((SOURCE[b] != 0).sum())]
        one = slice(b, b + 1)
        torch.testing.assert_close(ours(alone, TARGET[one]), together[one], atol=1e-12, rtol=0)


def test_padding_a_target_changes_nothing_before_it():
    ours = tiny_model()
    longer = nn.functional.pad(TARGET, (0, 3))
    torch.testing.assert_close(
        ours(SOURCE, longer)[:, :T], ours(SOURCE, TARGET), atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("norm", ARRANGEMENTS)
@pytest.mark.parametrize("positions", SCHEMES)
def test_step_by_step_is_all_at_once(norm, positions):
    """Cached logits equal teacher-forced ones, in pieces of every length."""
    ours = tiny_model(norm=norm, positions=positions)
    expected = ours(SOURCE, TARGET)
    for pieces in ([1] * T, [T], [2, 1, 7, 3]):
        state = ours.start(SOURCE)
        parts = [ours.step(part, state) for part in TARGET.split(pieces, 1)]
        torch.testing.assert_close(torch.cat(parts, 1), expected, atol=1e-12, rtol=0)
        assert state.length == T


def test_the_trace_has_every_attention_and_changes_nothing():
    ours, trace = tiny_model(), {}
    traced = ours(SOURCE, TARGET, trace)
    torch.testing.assert_close(traced, ours(SOURCE, TARGET), atol=1e-12, rtol=0)
    expected = {f"encoder.{i}.self.weights_BHTS": (B, H, S, S) for i in range(ENCODER_LAYERS)}
    for i in range(DECODER_LAYERS):
        expected[f"decoder.{i}.self.weights_BHTS"] = (B, H, T, T)
        expected[f"decoder.{i}.cross.weights_BHTS"] = (B, H, T, S)
    found = {name: tuple(w.shape) for name, w in trace.items() if "weights" in name}
    assert found == expected
    assert len(trace) == 3 * len(expected)  # queries and keys besides
    for name in found:
        weights = trace[name]
        ones = torch.ones(weights.shape[:-1], dtype=torch.float64)
        torch.testing.assert_close(weights.sum(-1), ones, atol=1e-13, rtol=0)
        if not name.startswith("decoder") or "cross" in name:  # padding of the source
            assert (weights.amax((1, 2))[SOURCE == 0] == 0).all()
        else:
            assert (weights.triu(1) == 0).all()


def test_how_a_new_model_starts():
    torch.manual_seed(0)
    ours = EncoderDecoder(ModelConfig(997, 991, d_model=35, h=5, d_ff=41))
    for embedding in (ours.source_embedding, ours.target_embedding):
        assert embedding.weight.std().item() == pytest.approx(35**-0.5, rel=0.02)
        assert abs(embedding.weight.mean().item()) < 0.005
    assert ours.config.dropout == 0.1 and ours.training


def test_the_number_of_parameters_is_what_the_formulas_say():
    ours = tiny_model()
    attention, norm = 4 * (D * D + D), 2 * D
    ffn = D * F + F + F * D + D
    encoder = ENCODER_LAYERS * (attention + ffn + 2 * norm)
    decoder = DECODER_LAYERS * (2 * attention + ffn + 3 * norm)
    embeddings = (SOURCE_SIZE + TARGET_SIZE) * D  # the scoring matrix is the target's
    assert ours.parameters_count() == encoder + decoder + embeddings + 2 * norm
    post = tiny_model(norm="post", positions="learned")
    tables = 2 * MAX_LENGTH * D
    assert post.parameters_count() == encoder + decoder + embeddings + tables


def test_dropout_falls_on_embeddings_and_sub_layers():
    torch.manual_seed(0)
    ours = EncoderDecoder(tiny_config(dropout=0.3))
    rates = {name: m.p for name, m in ours.named_modules() if isinstance(m, nn.Dropout)}
    assert len(rates) == 1 + 2 * ENCODER_LAYERS + 3 * DECODER_LAYERS
    assert set(rates.values()) == {0.3}
    calls = []
    ours.dropout.register_forward_hook(lambda m, args, out: calls.append(tuple(args[0].shape)))
    first, second = (ours(SOURCE, TARGET) for _ in range(2))
    assert not torch.equal(first, second)
    assert calls[:2] == [(B, S, D), (B, T, D)]
    ours.eval()
    assert torch.equal(ours(SOURCE, TARGET), ours(SOURCE, TARGET))


def test_state_dict_goes_into_a_new_model():
    ours, other = tiny_model(0), tiny_model(5)
    assert not torch.allclose(ours(SOURCE, TARGET), other(SOURCE, TARGET))
    other.load_state_dict(ours.state_dict())
    assert torch.equal(ours(SOURCE, TARGET), other(SOURCE, TARGET))


@pytest.mark.plain
@pytest.mark.parametrize(
    ("field", "bad", "message"),
    [
        ("source_size", 0, r"source_size must be a whole number of at least 1, but got 0; set"),
        ("max_length", 2.5, r"max_length must be a whole number of at least 1, but got 2\.5; set"),
        ("d_ff", -7, r"d_ff must be a whole number of at least 1, but got -7; set"),
        ("h", 6, r"must divide the width of the model, but h = 6 and d_model = 35; choose"),
        ("dropout", 1.0, r"lie in 0 ≤ dropout < 1, but got 1\.0; 0\.1 is usual"),
        ("dropout", -0.1, r"lie in 0 ≤ dropout < 1, but got -0\.1;"),
        ("dropout", math.nan, r"lie in 0 ≤ dropout < 1, but got nan;"),
        ("norm", "both", r"norm must be one of post, pre, but got 'both'; choose one"),
        ("positions", "alibi", r"positions must be one of sinusoidal, learned, but got 'alibi'"),
        ("activation", "tanh", r"activation must be one of relu, gelu, but got 'tanh'; choose"),
    ],
)
def test_a_wrong_configuration_is_refused(field, bad, message):
    with pytest.raises(ValueError, match=message):
        tiny_config(**{field: bad})


@pytest.mark.plain
def test_a_target_longer_than_the_model_is_refused_at_the_step_it_happens():
    ours = tiny_model()
    state = ours.start(SOURCE)
    ours.step(targets(B, 18, TARGET_SIZE), state)
    with pytest.raises(ValueError, match=r"target may hold at most 19 tokens.* holds 21;"):
        ours.step(TARGET[:, :3], state)


def test_branches_see_their_own_past():
    """Four hypotheses of each source in one cache, with random parents: as if read alone."""
    ours, W, steps = tiny_model().double(), 4, 5
    generator = torch.Generator().manual_seed(2)
    state, said = ours.start(SOURCE, W), [[[] for _ in range(W)] for _ in range(B)]
    for _ in range(steps):
        symbols = torch.randint(3, TARGET_SIZE, (B, W), generator=generator)
        parents = torch.randint(W, (B, W), generator=generator)
        logits = ours.branch(symbols, parents, state)
        said = [
            [[*said[b][parents[b, w]], int(symbols[b, w])] for w in range(W)] for b in range(B)
        ]
    for w in range(W):
        alone = ours(SOURCE, torch.tensor([said[b][w] for b in range(B)]))[:, -1]
        torch.testing.assert_close(logits[:, w], alone, atol=1e-12, rtol=0)
