"""Data and scores of text: windows, byte-pair merges, shards, BLEU, error rates. Part 1 of 3."""

import collections
import itertools

import numpy as np
from bank import Exercise


def _pairs(n, block):
    return lambda rng: (rng.integers(0, 50, size=n), block)


windows = Exercise(
    "data.windows",
    "Return all training pairs (x, y) of a token array: x is a window of `block` tokens, y the "
    "same window one token "
    "later; every pair must be complete.",
    "def windows(tokens, block): ...",
    lambda a, b: (
        np.stack([a[i : i + b] for i in range(len(a) - b)]),
        np.stack([a[i + 1 : i + 1 + b] for i in range(len(a) - b)]),
    ),
    {"generic": _pairs(12, 4), "just one": _pairs(5, 4), "block 1": _pairs(6, 1)},
)


@windows.accept("sliding view")
def _(a, b):
    w = np.lib.stride_tricks.sliding_window_view(a, b + 1)
    return w[:, :-1], w[:, 1:]


@windows.reject(
    "last pair lost",
    "One pair too few: the last start is len - block - 1, so there are len - block of them.",
    "karpathy/minGPT#31; proposed as a fix in karpathy/ng-video-lecture#56",
)
def _(a, b):
    n = len(a) - b - 1
    return np.stack([a[i : i + b] for i in range(n)]), np.stack(
        [a[i + 1 : i + 1 + b] for i in range(n)]
    )


@windows.reject(
    "target is the next window", "y must be shifted by one token, not by a whole block."
)
def _(a, b):
    n = len(a) - b
    y = np.concatenate([a, np.zeros(b, a.dtype)])
    return np.stack([a[i : i + b] for i in range(n)]), np.stack(
        [y[i + b : i + 2 * b] for i in range(n)]
    )


@windows.reject("windows side by side", "All starts are wanted, not only every block-th.")
def _(a, b):
    s = range(0, len(a) - b, b)
    return np.stack([a[i : i + b] for i in s]), np.stack([a[i + 1 : i + 1 + b] for i in s])


def _merge_in(*ids):
    return lambda rng: (list(ids) if ids else list(rng.integers(1, 4, size=14)), (1, 1), 9)


def _merge(ids, pair, new):
    out, i = [], 0
    while i < len(ids):
        if i + 1 < len(ids) and (ids[i], ids[i + 1]) == tuple(pair):
            out.append(new)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out


merge = Exercise(
    "data.bpe_merge",
    "Replace every occurrence of a pair of neighbouring token numbers by a new one, from left "
    "to right, without overlap.",
    "def merge(ids, pair, new): ...",
    _merge,
    {
        "random": _merge_in(),
        "run of three": _merge_in(1, 1, 1, 2),
        "run of four": _merge_in(2, 1, 1, 1, 1),
        "pair at the end": _merge_in(2, 1, 1),
        "numbers of two digits": _merge_in(11, 1, 1, 11),
        "no pair": _merge_in(1, 2, 1),
    },
    probe=lambda answer, ids, pair, new: np.array([float(x) for x in answer(ids, pair, new)]),
)


@merge.accept("stack")
def _(ids, pair, new):
    out, fresh = [], False
    for x in ids:
        if out and not fresh and (out[-1], x) == pair:
            out[-1] = new
            fresh = True
        else:
            out.append(x)
            fresh = False
    return out


@merge.accept("recursion")
def _(ids, pair, new):
    if len(ids) < 2:
        return list(ids)
    if (ids[0], ids[1]) == pair:
        return [new] + _merge(ids[2:], pair, new)
    return [ids[0]] + _merge(ids[1:], pair, new)


@merge.accept("runs of a repeated token")
def _(ids, pair, new):
    if pair[0] != pair[1]:
        return _merge(ids, pair, new)
    out = []
    for value, run in itertools.groupby(ids):
        n = len(list(run))
        out += [new] * (n // 2) + [value] * (n % 2) if value == pair[0] else [value] * n
    return out


@merge.reject(
    "overlapping pairs",
    "In a run of three the middle token is used twice: after a merge go on two places further.",
    "karpathy/minbpe#72 and #38, google/sentencepiece#318",
)
def _(ids, pair, new):
    hit = [(a, b) == pair for a, b in zip(ids, ids[1:])] + [False]
    out = []
    for i, x in enumerate(ids):
        if hit[i]:
            out.append(new)
        elif not (i and hit[i - 1]):
            out.append(x)
    return out


@merge.reject(
    "one place on after a merge",
    "The second half of the pair is still written out: skip two places after a merge.",
)
def _(ids, pair, new):
    out, i = [], 0
    while i < len(ids):
        if i + 1 < len(ids) and (ids[i], ids[i + 1]) == pair:
            out.append(new)
        else:
            out.append(ids[i])
        i += 1
    return out


@merge.reject(
    "last token lost", "The loop stops one short and drops the last token if no pair ends there."
)
def _(ids, pair, new):
    out, i = [], 0
    while i < len(ids) - 1:
        if (ids[i], ids[i + 1]) == pair:
            out.append(new)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out


def _train(ids, n):
    ranks = {}
    for k in range(n):
        stats = collections.Counter(zip(ids, ids[1:]))
        if not stats:
            break
        pair = min(stats, key=lambda p: (-stats[p], p))
        ranks[pair] = 100 + k
        ids = _merge(ids, pair, 100 + k)
    return ranks


def _enc_in(n, m):
    def make(rng):
        train = [int(x) for x in rng.integers(1, 4, size=60)]
        return [int(x) for x in rng.integers(1, 4, size=m)], _train(train, n)

    return make


def _encode(ids, ranks):
    pair_of = {new: pair for pair, new in ranks.items()}
    while True:
        known = [ranks[p] for p in zip(ids, ids[1:]) if p in ranks]
        if not known:
            return list(ids)
        ids = _merge(ids, pair_of[min(known)], min(known))


encode = Exercise(
    "data.bpe_encode",
    "merges maps pairs to new token numbers, in the order in which they were learned (the "
    "number grows). Encode ids: "
    "always merge the pair learned first among those present.",
    "def encode(ids, merges): ...",
    _encode,
    {
        "generic": _enc_in(8, 30),
        "many merges": _enc_in(15, 40),
        "two tokens": _enc_in(4, 2),
        "one token": _enc_in(4, 1),
    },
    probe=lambda answer, ids, ranks: np.array([float(x) for x in answer(ids, ranks)]),
)


@encode.accept("one pass over the merges in order")
def _(ids, ranks):
    for pair, new in sorted(ranks.items(), key=lambda kv: kv[1]):
        ids = _merge(ids, pair, new)
    return ids


@encode.accept("one occurrence at a time")
def _(ids, ranks):
    ids = list(ids)
    while True:
        found = [(ranks[p], i) for i, p in enumerate(zip(ids, ids[1:])) if p in ranks]
        if not found:
            return ids
        new, i = min(found)
        ids[i : i + 2] = [new]


@encode.reject(
    "first known pair from the left",
    "The earliest learned pair comes first, not the leftmost one.",
    "karpathy/minbpe#87 and #100 (why the order matters)",
)
def _(ids, ranks):
    ids = list(ids)
    while True:
        for i, p in enumerate(zip(ids, ids[1:])):
            if p in ranks:
                ids[i : i + 2] = [ranks[p]]
                break
        else:
            return ids


@encode.reject("latest merge first", "You took the pair learned last: min, not max.")
def _(ids, ranks):
    pair_of = {new: pair for pair, new in ranks.items()}
    while True:
        known = [ranks[p] for p in zip(ids, ids[1:]) if p in ranks]
        if not known:
            return list(ids)
        ids = _merge(ids, pair_of[max(known)], max(known))


@encode.reject(
    "longest token first",
    "Byte-pair encoding does not look for the longest known token; it repeats the merges.",
)
def _(ids, ranks):
    spans = {}
    for (a, b), new in ranks.items():
        spans[new] = spans.get(a, (a,)) + spans.get(b, (b,))
    by_span = {v: k for k, v in sorted(spans.items(), reverse=True)}
    out, i = [], 0
    while i < len(ids):
        for n in range(len(ids) - i, 0, -1):
            if n == 1 or tuple(ids[i : i + n]) in by_span:
                out.append(by_span.get(tuple(ids[i : i + n]), ids[i]))
                i += n
                break
    return out


EXERCISES = [windows, merge, encode]
