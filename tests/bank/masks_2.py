"""Masks: which keys a query may see. True means 'may be seen' throughout. Part 2 of 2."""

import numpy as np
from bank import Exercise, t, torch

causal_kv = Exercise(
    "mask.causal_with_cache",
    "The q_len queries are the last q_len of k_len positions. Return the (q_len, k_len) boolean "
    "causal mask.",
    "def causal_mask(q_len, k_len): ...",
    lambda q, k: np.arange(k) <= np.arange(q)[:, None] + k - q,
    {
        "one new token": lambda rng: (1, 6),
        "a chunk": lambda rng: (3, 5),
        "no cache": lambda rng: (4, 4),
    },
)


@causal_kv.accept("last rows of the square mask")
def _(q, k):
    return np.tril(np.ones((k, k), bool))[k - q :]


@causal_kv.accept("loop")
def _(q, k):
    return [[(k - q + i) - j >= 0 for j in range(k)] for i in range(q)]


@causal_kv.accept("torch, complement of triu")
def _(q, k):
    return ~torch.ones(q, k, dtype=torch.bool).triu(k - q + 1)


@causal_kv.reject(
    "offset of the wrong sign",
    "The diagonal was moved the wrong way: use k_len - q_len.",
    "huggingface/transformers#41228 (a sign of this kind in a window mask)",
)
def _(q, k):
    return np.tril(np.ones((q, k), bool), k=q - k)


@causal_kv.reject(
    "everything visible",
    "For one new token all keys may be seen, but within a chunk the mask is still causal.",
    "open-lm-engine/lm-engine#498 (review: is_causal dropped as soon as a cache is used)",
)
def _(q, k):
    return np.ones((q, k), bool)


@causal_kv.reject(
    "new tokens do not see themselves", "Each new token must see its own key, too: <=, not <."
)
def _(q, k):
    return np.arange(k) < np.arange(q)[:, None] + k - q


window = Exercise(
    "mask.sliding_window",
    "Causal sliding window: each position sees itself and the w-1 positions before it. Return "
    "the (T, T) mask.",
    "def window_mask(T, w): ...",
    lambda n, w: np.tril(np.ones((n, n), bool)) & ~np.tril(np.ones((n, n), bool), k=-w),
    {
        "generic": lambda rng: (7, 3),
        "w = 1": lambda rng: (5, 1),
        "w = T": lambda rng: (4, 4),
        "w larger than T": lambda rng: (3, 8),
    },
)


@window.accept("differences of positions")
def _(n, w):
    d = np.subtract.outer(np.arange(n), np.arange(n))
    return (0 <= d) & (d < w)


@window.accept("loop")
def _(n, w):
    m = np.zeros((n, n), int)
    for i in range(n):
        m[i, max(0, i - w + 1) : i + 1] = 1
    return m


@window.accept("torch, difference of two triangles")
def _(n, w):
    one = torch.ones(n, n)
    return one.tril() - one.tril(-w)


@window.reject(
    "window on both sides",
    "The window reaches into the future, too: abs(i-j) is not causal.",
    "huggingface/transformers#39408",
)
def _(n, w):
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))) < w


@window.reject(
    "blocks instead of a window",
    "You cut the sequence into blocks of w; the window has to move with the position.",
)
def _(n, w):
    b = np.arange(n) // w
    return (b[:, None] == b) & np.tril(np.ones((n, n), bool))


def _docs(*lengths):
    def make(rng):
        ids = []
        for n in lengths:
            ids += list(rng.integers(2, 9, size=n - 1)) + [1]
        return np.array(ids), 1

    return make


documents = Exercise(
    "mask.documents",
    "Several documents are packed into one sequence, each ending with the token eos (which "
    "belongs to it). Return the "
    "(T, T) mask that is causal and keeps the documents apart.",
    "def packed_mask(ids, eos): ...",
    lambda ids, eos: (lambda d: (d[:, None] == d) & np.tril(np.ones((len(d), len(d)), bool)))(
        np.cumsum(ids == eos) - (ids == eos)
    ),
    {
        "three documents": _docs(3, 2, 4),
        "one document": _docs(5),
        "documents of one token": _docs(1, 1, 3),
    },
)


@documents.accept("blocks")
def _(ids, eos):
    n, start = len(ids), 0
    m = np.zeros((n, n), bool)
    for stop in list(np.flatnonzero(ids == eos) + 1) + [n]:
        m[start:stop, start:stop] = np.tril(np.ones((stop - start, stop - start), bool))
        start = stop
    return m


@documents.accept("torch cumsum")
def _(ids, eos):
    end = (t(ids) == eos).long()
    d = end.cumsum(0) - end
    return (d[:, None] == d[None, :]).tril()


@documents.reject(
    "causal only",
    "Tokens of a later document still see the earlier ones.",
    "alex-hh/profam#495, karpathy/nanoGPT#280 and mosaicml/llm-foundry#1464 (asked there)",
)
def _(ids, eos):
    return np.tril(np.ones((len(ids), len(ids)), bool))


@documents.reject(
    "end token counted to the next document",
    "The end token belongs to the document it closes: count the ends strictly before a position.",
    "swiss-ai/Megatron-LM#40 (review: slice one too long)",
)
def _(ids, eos):
    d = np.cumsum(ids == eos)
    return (d[:, None] == d) & np.tril(np.ones((len(d), len(d)), bool))


@documents.reject(
    "not causal inside a document",
    "Within a document the future is visible: combine the block mask with the causal one.",
)
def _(ids, eos):
    d = np.cumsum(ids == eos) - (ids == eos)
    return d[:, None] == d


@documents.reject(
    "hides the end token",
    "The end token must be an ordinary key of its own document; its row may not become empty "
    "either.",
    "swiss-ai/Megatron-LM#40 (there the beginning token)",
)
def _(ids, eos):
    d = np.cumsum(ids == eos) - (ids == eos)
    return (d[:, None] == d) & np.tril(np.ones((len(d), len(d)), bool)) & (ids != eos)


EXERCISES = [causal_kv, window, documents]
