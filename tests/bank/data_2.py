"""Data and scores of text: windows, byte-pair merges, shards, BLEU, error rates. Part 2 of 3."""

import collections
import math

import numpy as np
from bank import Exercise, torch


def _perm(n, seed, epoch=0):
    return [int(i) for i in np.random.default_rng([seed, epoch]).permutation(n)]


def _shard_facts(answer, n, world, seed):
    """What is asked of a sharding; how it is done is free."""
    epochs = [
        [list(map(int, answer(n, world, rank, epoch, seed))) for rank in range(world)]
        for epoch in (0, 1, 2)
    ]
    facts = []
    for shards in epochs:
        union = [i for s in shards for i in s]
        facts += [
            len({len(s) for s in shards}) == 1,
            len(union) == len(set(union)),
            len(union) == n // world * world,
            all(0 <= i < n for i in union),
        ]
    again = [list(map(int, answer(n, world, rank, 1, seed))) for rank in range(world)]
    flat = ["".join(f"{i} " for s in shards for i in s) for shards in epochs]
    facts += [
        again == epochs[1],
        len(set(flat)) == 3,
        flat[0] != "".join(f"{i} " for i in range(n // world * world)),
    ]
    return np.array(facts, dtype=float)


shard = Exercise(
    "data.shards",
    "Return the indices that `rank` of `world` processes reads in `epoch`: shuffled, another "
    "order every epoch, the same "
    "for the same seed; all ranks read equally many, no index twice (n % world indices are left "
    "out).",
    "def shard(n, world, rank, epoch, seed): ...",
    lambda n, world, rank, epoch, seed: _perm(n, seed, epoch)[rank : n // world * world : world],
    {
        "with a rest": lambda rng: (23, 4, 7),
        "no rest": lambda rng: (24, 4, 7),
        "one process": lambda rng: (20, 1, 3),
    },
    probe=_shard_facts,
)


@shard.accept("strided")
def _(n, world, rank, epoch, seed):
    order = np.random.default_rng(1000 * seed + epoch).permutation(n)[: n - n % world]
    return order[rank::world]


@shard.accept("contiguous blocks of the shuffled list")
def _(n, world, rank, epoch, seed):
    k = n // world
    return _perm(n, seed, epoch)[rank * k : (rank + 1) * k]


@shard.accept("torch generator")
def _(n, world, rank, epoch, seed):
    g = torch.Generator().manual_seed(seed + epoch)
    return torch.randperm(n, generator=g)[: n // world * world].view(-1, world)[:, rank].tolist()


@shard.reject(
    "same order every epoch",
    "The seed does not depend on the epoch (set_epoch forgotten): each epoch has the same order.",
    "pytorch/pytorch#31771, #11324 and #31232, lucidrains/DALLE-pytorch#230, "
    "kan-bayashi/ParallelWaveGAN#177",
)
def _(n, world, rank, epoch, seed):
    return _perm(n, seed)[rank : n // world * world : world]


@shard.reject(
    "each rank shuffles for itself",
    "With a seed of its own each rank cuts another permutation: some samples are read twice, "
    "others never.",
    "yangkky/distributed_tutorial#5, open-mmlab/mmagic#815, karpathy/nanoGPT#531",
)
def _(n, world, rank, epoch, seed):
    return _perm(n, seed + rank, epoch)[rank : n // world * world : world]


@shard.reject(
    "not shuffled", "The order is that of the file.", "LambdaLabsML/distributed-training-guide#40"
)
def _(n, world, rank, epoch, seed):
    return list(range(n))[rank : n // world * world : world]


@shard.reject(
    "unseeded shuffle",
    "Without the common seed the ranks (and a restart) disagree about the order.",
)
def _(n, world, rank, epoch, seed):
    return list(np.random.default_rng().permutation(n))[rank : n // world * world : world]


def _corpus(refs_each, sentences, change, cut=0, words=12):
    def make(rng):
        hyps, refs = [], []
        for _s in range(sentences):
            base = list(rng.integers(0, words, size=int(rng.integers(7, 13))))
            group = []
            for r in range(refs_each):
                y = list(base)
                for _c in range(r):
                    y[int(rng.integers(len(y)))] = int(rng.integers(words))
                group.append(
                    [int(w) for w in y + [int(w) for w in rng.integers(0, words, size=3 * r)]]
                )
            h = list(base)
            for _c in range(change):
                h[int(rng.integers(len(h)))] = int(rng.integers(words))
            hyps.append([int(w) for w in h[: len(h) - cut]])
            refs.append(group)
        return hyps, refs

    return make


def _short_ref(keep):
    """References of 12 and of 2 words, hypotheses of `keep` words."""

    def make(rng):
        base = [[int(w) for w in rng.integers(0, 12, size=12)] for _s in range(3)]
        return [b[:keep] for b in base], [[b, b[:2]] if keep > 7 else [b] for b in base]

    return make


def _grams(s, n):
    return collections.Counter(tuple(s[i : i + n]) for i in range(len(s) - n + 1))


def _bleu(hyps, refs, clip=None, reflen=None, bp=None):
    match, total, c, r = [0] * 4, [0] * 4, 0, 0
    for h, group in zip(hyps, refs):
        c += len(h)
        r += (reflen or (lambda k, g: min((abs(len(x) - k), len(x)) for x in g)[1]))(len(h), group)
        for n in range(1, 5):
            g = _grams(h, n)
            best = collections.Counter()
            for x in group:
                best |= _grams(x, n)
            match[n - 1] += clip(g, group, n) if clip else sum((g & best).values())
            total[n - 1] += max(len(h) - n + 1, 0)
    if min(match) == 0:
        return 0.0
    penalty = bp(c, r) if bp else min(1.0, math.exp(1 - r / c))
    return penalty * math.exp(sum(math.log(m / k) for m, k in zip(match, total)) / 4)


bleu = Exercise(
    "data.bleu",
    "Corpus BLEU (0..1) up to 4-grams, no smoothing: n-gram counts clipped by the largest count "
    "in any one reference and "
    "summed over the corpus; brevity penalty with the closest reference lengths (the shorter "
    "one of two equally close).",
    "def bleu(hypotheses, references): ...",
    _bleu,
    {
        "one reference": _corpus(1, 3, 1),
        "two references": _corpus(2, 3, 1),
        "short hypotheses": _corpus(1, 3, 0, 2),
        "repeated words": _corpus(2, 4, 1, words=3),
        "one sentence": _corpus(1, 1, 0, 1),
        "one reference far too short": _short_ref(9),
        "hypotheses of half the length": _short_ref(5),
    },
)


@bleu.accept("fourth root of the product")
def _(hyps, refs):
    p = 1.0
    for n in range(1, 5):
        hit = all_ = 0
        for h, group in zip(hyps, refs):
            for gram, k in _grams(h, n).items():
                hit += min(k, max(_grams(x, n)[gram] for x in group))
                all_ += k
        p *= hit / all_
    c = sum(map(len, hyps))
    r = sum(
        min((len(x) for x in group), key=lambda k: (abs(k - len(h)), k))
        for h, group in zip(hyps, refs)
    )
    return (1.0 if c > r else math.exp(1 - r / c)) * p**0.25


@bleu.accept("logarithms in arrays")
def _(hyps, refs):
    counts = np.zeros((4, 2))
    lengths = np.zeros(2)
    for h, group in zip(hyps, refs):
        d = sorted((abs(len(x) - len(h)), len(x)) for x in group)
        lengths += [len(h), d[0][1]]
        for n in range(4):
            grams = [tuple(h[i : i + n + 1]) for i in range(len(h) - n)]
            for g in set(grams):
                k = grams.count(g)
                top = max(
                    sum(tuple(x[i : i + n + 1]) == g for i in range(len(x) - n)) for x in group
                )
                counts[n] += [min(k, top), k]
    with np.errstate(divide="ignore"):
        return float(
            np.exp(
                np.log(counts[:, 0] / counts[:, 1]).mean() + min(0.0, 1 - lengths[1] / lengths[0])
            )
        )


@bleu.reject(
    "mean of the sentences' BLEU",
    "BLEU sums counts over the corpus; it is not an average of sentence scores.",
)
def _(hyps, refs):
    return np.mean([_bleu([h], [g]) for h, g in zip(hyps, refs)])


@bleu.reject(
    "clipped by the one best reference",
    "Each n-gram is clipped by its own largest count over the references, not by one reference "
    "for all.",
    "promptfoo/promptfoo#9846",
)
def _(hyps, refs):
    return _bleu(
        hyps, refs, clip=lambda g, group, n: max(sum((g & _grams(x, n)).values()) for x in group)
    )


@bleu.reject(
    "clipped by the sum over the references",
    "The counts of several references are not added up; the largest counts.",
)
def _(hyps, refs):
    return _bleu(
        hyps,
        refs,
        clip=lambda g, group, n: sum(
            (g & sum((_grams(x, n) for x in group), collections.Counter())).values()
        ),
    )


@bleu.reject(
    "brevity penalty upside down",
    "exp(1 - c/r) rewards short hypotheses and can exceed 1: it is exp(1 - r/c).",
    "promptfoo/promptfoo#9717",
)
def _(hyps, refs):
    return _bleu(hyps, refs, bp=lambda c, r: 1.0 if c > r else math.exp(1 - c / r))


@bleu.reject(
    "shortest reference length",
    "The reference closest in length counts, not the shortest.",
    "meta-pytorch/torcheval#195, tensorflow/nmt#450",
)
def _(hyps, refs):
    return _bleu(hyps, refs, reflen=lambda k, g: min(map(len, g)))


EXERCISES = [shard, bleu]
