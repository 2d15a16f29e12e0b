"""The rows of the table: what is timed, and how results are compared.

Every model of a row sees the same batches, prompts or sources. Vocabularies hold our three
special symbols; the data use the others, and the models that write never say a special one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import torch
from peers import PlainGPT, PlainSeq2Seq, bart, gpt2, pegasus, t5
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GenerationConfig
from weights import copy_gpt, copy_pegasus, copy_seq2seq

from transformer_lab.decode import beam, generate
from transformer_lab.models import DecoderOnly, DecoderOnlyConfig, EncoderDecoder, ModelConfig
from transformer_lab.tokens import BOS, PAD, SPECIAL

OURS, UNCACHED = "ours", "ours, no cache"
PLAIN, GPT2 = "nanoGPT style, written here", "transformers GPT-2"
TORCH, BART = "torch.nn.Transformer", "transformers BART"
T5, PEGASUS = "transformers T5", "transformers Pegasus"
LR = 3e-4
"""Small, so that what differs by rounding does not drift apart within the steps of a row."""


@dataclass(frozen=True)
class Entry:
    """One implementation: its model, what is timed, and whether it has our weights."""

    model: nn.Module
    run: Callable[[], list]
    same: bool = True
    rounds: int | None = None  # fewer than the row's, for what is slow


@dataclass(frozen=True)
class Row:
    """One comparison. ``amount`` of ``unit`` is done in a run; ``parts`` steps are in it."""

    what: str
    entries: dict[str, Entry]
    rounds: int
    amount: int
    unit: str
    parts: int
    compare: Callable[[list, list], float]
    measure: str
    tolerance: float


def loss_difference(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """Largest difference of the losses of all steps, in nats."""
    pairs = zip(chain(*ours), chain(*theirs), strict=True)
    return max(abs(a - b) for a, b in pairs)


def differing_share(ours: list[list], theirs: list[list]) -> float:
    """Share of ids that differ in the last results, which are lists of equally long rows."""
    pairs = list(zip(chain(*ours[-1]), chain(*theirs[-1]), strict=True))
    return sum(a != b for a, b in pairs) / len(pairs)


def adamw(model: nn.Module, scale: dict[str, float]) -> torch.optim.AdamW:
    """Fused AdamW without decay; ``scale`` says which parameters exceed ours by what factor.

    A step of Adam has the size of its rate, whatever the size of the gradient. A parameter that
    is s times ours (and its gradient therefore 1/s of ours) takes s times our rate and 1/s of
    our ε to stay s times ours.
    """
    groups = [
        {"params": [p], "lr": LR * scale[name], "eps": 1e-8 / scale[name]}
        for name, p in model.named_parameters()
        if name in scale
    ]
    assert len(groups) == len(scale)
    rest = [p for name, p in model.named_parameters() if name not in scale]
    return torch.optim.AdamW([{"params": rest}, *groups], lr=LR, weight_decay=0.0, fused=True)


def trainer(
    model: nn.Module,
    logits: Callable[..., Tensor],
    batches: list[tuple[Tensor, ...]],
    scale: dict[str, float] | None = None,
) -> Callable[[], list[float]]:
    """One step on each batch: forward, cross-entropy, backward, AdamW; returns the losses.

    The last tensor of a batch is what is to be said, the others are what ``logits`` takes.
    Gradients are clipped for nobody.
    """
    model.train()
    optimiser = adamw(model, scale or {})

    def run() -> list[float]:
        losses = []
        for *seen, said in batches:
            loss = F.cross_entropy(logits(*seen).flatten(0, 1), said.flatten())
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        return losses

    return run


def symbols(size: int, *shape: int, seed: int = 0) -> Tensor:
    """Random ids of a vocabulary of ``size``, no special ones."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(len(SPECIAL), size, shape, generator=generator)


@torch.no_grad()
def talkative(embedding: nn.Embedding, norm: nn.Module, tables: list[nn.Parameter]) -> None:
    """Change first weights so that the model says various things and nothing special.

    Fresh models repeat the last token for ever: their embeddings are made small against the
    positions. The first feature of the last norm is made large, and only special symbols look at
    it, with a minus.
    """
    embedding.weight *= 0.2
    for table in tables:
        table.normal_()
    norm.beta_D[0] = 40.0
    embedding.weight[:, 0] = 0.0
    embedding.weight[: len(SPECIAL)] = 0.0
    embedding.weight[: len(SPECIAL), 0] = -1.0


def train_lm(c: DecoderOnlyConfig, batch: int, steps: int, rounds: int) -> Row:
    """A step of training of a language model, windows as long as the model allows."""
    torch.manual_seed(0)
    ours, plain, theirs = DecoderOnly(c), PlainGPT(c), gpt2(c)
    text = symbols(c.size, steps, batch, c.max_length + 1)
    batches = [(window[:, :-1], window[:, 1:]) for window in text]
    to_plain, to_theirs = copy_gpt(ours, plain), copy_gpt(ours, theirs)
    return Row(
        what=f"{c.layers} layers, d {c.d_model}, {c.h} heads, {c.max_length} × {batch} tokens",
        entries={
            OURS: Entry(ours, trainer(ours, ours, batches)),
            PLAIN: Entry(plain, trainer(plain, plain, batches, to_plain)),
            GPT2: Entry(
                theirs,
                trainer(
                    theirs, lambda x: theirs(input_ids=x, use_cache=False).logits, batches,
                    to_theirs,
                ),
            ),
        },
        rounds=rounds, amount=steps * batch * c.max_length, unit="tokens", parts=steps,
        compare=loss_difference, measure="losses, nats", tolerance=1e-3,
    )  # fmt: skip


def generate_lm(c: DecoderOnlyConfig, batch: int, prompt: int, rounds: int) -> Row:
    """Greedy generation until the model is full."""
    torch.manual_seed(0)
    ours, plain, theirs = DecoderOnly(c).eval(), PlainGPT(c).eval(), gpt2(c).eval()
    talkative(ours.embedding, ours.norm, [ours.positions.table_nD])
    copy_gpt(ours, plain)
    copy_gpt(ours, theirs)
    ids, new = symbols(c.size, batch, prompt), c.max_length - prompt
    greedy = GenerationConfig(max_new_tokens=new, do_sample=False, pad_token_id=PAD)

    def by_us(cache: bool) -> list[list[int]]:
        return generate(ours, ids.tolist(), new, cache=cache)

    def by_gpt2() -> list[list[int]]:
        said = theirs.generate(ids, attention_mask=torch.ones_like(ids), generation_config=greedy)
        return said[:, -new:].tolist()

    slow = rounds if batch == 1 else 1
    return Row(
        what=f"{c.layers} layers, d {c.d_model}, {batch} × ({prompt} + {new}) tokens, greedy",
        entries={
            OURS: Entry(ours, lambda: by_us(True)),
            UNCACHED: Entry(ours, lambda: by_us(False), rounds=slow),
            GPT2: Entry(theirs, by_gpt2),
            PLAIN: Entry(plain, lambda: plain.generate(ids, new)[:, -new:].tolist(), rounds=slow),
        },
        rounds=rounds, amount=batch * new, unit="new tokens", parts=1,
        compare=differing_share, measure="share of other tokens", tolerance=0.1,
    )  # fmt: skip


def train_pairs(c: ModelConfig, batch: int, T: int, steps: int, rounds: int) -> Row:
    """A step of training of an encoder-decoder; sources as long as the model allows."""
    torch.manual_seed(0)
    ours, theirs, other = EncoderDecoder(c), PlainSeq2Seq(c), bart(c)
    copy_seq2seq(ours, theirs)
    sources = symbols(c.source_size, steps, batch, c.max_length)
    targets = symbols(c.target_size, steps, batch, T + 1, seed=1)
    batches = [
        (x, y[:, :-1], y[:, 1:]) for x, y in zip(sources, targets, strict=True)
    ]

    def by_bart(x: Tensor, y: Tensor) -> Tensor:
        return other(input_ids=x, decoder_input_ids=y, use_cache=False).logits

    return Row(
        what=f"{c.encoder_layers} + {c.decoder_layers} layers, d {c.d_model}, "
        f"{c.max_length} → {T} tokens, {batch} pairs",
        entries={
            OURS: Entry(ours, trainer(ours, ours, batches)),
            TORCH: Entry(theirs, trainer(theirs, theirs, batches)),
            BART: Entry(other, trainer(other, by_bart, batches), same=False),
        },
        rounds=rounds, amount=steps * batch * (c.max_length + T), unit="tokens", parts=steps,
        compare=loss_difference, measure="losses, nats", tolerance=1e-3,
    )  # fmt: skip


def search(c: ModelConfig, sources: int, S: int, width: int, rounds: int) -> Row:
    """Beam search over sources of S tokens until the model is full; the best of each."""
    torch.manual_seed(0)
    ours = EncoderDecoder(c).eval()
    tables = [ours.source_positions.table_nD, ours.target_positions.table_nD]
    talkative(ours.target_embedding, ours.decoder_norm, tables)
    with torch.no_grad():
        ours.source_embedding.weight.copy_(ours.target_embedding.weight)
    theirs = {PEGASUS: pegasus(c).eval(), BART: bart(c).eval(), T5: t5(c).eval()}
    copy_pegasus(ours, theirs[PEGASUS])
    ids, new = symbols(c.source_size, sources, S), c.max_length - 1
    beams = GenerationConfig(
        num_beams=width, max_new_tokens=new, do_sample=False, pad_token_id=PAD,
        decoder_start_token_id=BOS,
    )  # fmt: skip

    def by(model: nn.Module) -> list[list[int]]:
        said = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=beams)
        assert said.shape == (sources, 1 + new), "all write equally much"
        return said[:, 1:].tolist()

    def by_us() -> list[list[int]]:
        said = [list(found[0].ids) for found in beam(ours, ids, width, max_symbols=new - 1)]
        assert {len(row) for row in said} == {new}, "all write equally much"
        return said

    entries = {OURS: Entry(ours, by_us)}
    for name, model in theirs.items():
        entries[name] = Entry(model, lambda model=model: by(model), same=name == PEGASUS)
    return Row(
        what=f"{c.encoder_layers} + {c.decoder_layers} layers, d {c.d_model}, "
        f"{sources} sources of {S} tokens, {width} beams, {new} steps",
        entries=entries,
        rounds=rounds, amount=sources, unit="sources", parts=1,
        compare=differing_share, measure="share of other tokens", tolerance=0.1,
    )  # fmt: skip
