"""What byte-level BPE must agree with: `tokenizers`, set to the same ids; texts that are hard."""

from __future__ import annotations

import json
from random import Random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from transformer_lab.tokens import SPECIAL, ByteBPE

KINDS = (
    "ab", "aAbB '\n", "ab \n\t", "é😀日本ß", "0123²½٣Ⅷ", "\u00a0\u2003\x85 \x1c\x1f ab",
    "'s't're've'll'd'm xS’", "漢字かな。", "_-.,!?<pad>",
)  # fmt: skip


def random_text(random: Random, longest: int) -> str:
    """Characters of one to three kinds, in any order."""
    chars = "".join(random.sample(KINDS, random.randint(1, 3)))
    return "".join(random.choice(chars) for _ in range(random.randint(1, longest)))


def byte_level():
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def trained(text: str, size: int) -> Tokenizer:
    """`tokenizers`, trained."""
    peer = Tokenizer(models.BPE())
    peer.pre_tokenizer = byte_level()
    trainer = trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    peer.train_from_iterator([text], trainer)
    return peer


def merges_of(peer: Tokenizer) -> list[str]:
    """The merges of a trained tokenizer, as GPT-2 writes them."""
    found = json.loads(peer.to_str())["model"]["merges"]
    return [m if isinstance(m, str) else " ".join(m) for m in found]


def with_merges(bpe: ByteBPE) -> Tokenizer:
    """`tokenizers` with our merges, and every token under the id that it has here."""
    signs = sorted(pre_tokenizers.ByteLevel.alphabet(), key=ord)
    ids: dict[str, int] = {}
    for token in [*SPECIAL, *signs, *(merge.replace(" ", "") for merge in bpe.merges)]:
        ids.setdefault(token, len(ids))
    pairs = [tuple(merge.split(" ")) for merge in bpe.merges]
    peer = Tokenizer(models.BPE(vocab=ids, merges=pairs))
    peer.pre_tokenizer = byte_level()
    return peer


def random_merges(random: Random, letters: str) -> ByteBPE:
    """Rules in no sensible order, some of which make a token that is there already."""
    tokens, merges = list(letters), []
    for _ in range(random.randint(1, 14)):
        merge = f"{random.choice(tokens)} {random.choice(tokens)}"
        if merge not in merges:
            merges.append(merge)
            tokens.append(merge.replace(" ", ""))
    return ByteBPE(tuple(merges))
