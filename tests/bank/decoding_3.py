"""Decoding: temperature, top-k, top-p, penalties, beams, greedy choice, the key-value cache.

Part 3 of 3.
"""

import numpy as np
from bank import Exercise, log_softmax, softmax, t, torch


def _greedy_in(pads):
    return lambda rng: (
        rng.normal(size=(3, 5, 6)),
        np.array([5, 2, 4]) if pads else np.array([5, 5, 5]),
    )


greedy = Exercise(
    "decoding.greedy_next",
    "logits (B, T, V) of right-padded prompts with the given lengths: return each row's most "
    "probable next token.",
    "def greedy_next(logits, lengths): ...",
    lambda z, n: z[np.arange(len(z)), n - 1].argmax(-1),
    {"right padding": _greedy_in(True), "no padding": _greedy_in(False)},
)


@greedy.accept("sort of the log-probabilities")
def _(z, n):
    return [int(np.argsort(log_softmax(row[k - 1]))[-1]) for row, k in zip(z, n)]


@greedy.accept("torch")
def _(z, n):
    return t(z)[torch.arange(len(z)), t(n) - 1].argmax(-1)


@greedy.reject("one position too far", "The last real position is length - 1.")
def _(z, n):
    return z[np.arange(len(z)), np.minimum(n, z.shape[1] - 1)].argmax(-1)


@greedy.reject(
    "argmax over the wrong axis",
    "The largest entry over the vocabulary is wanted, not over the positions.",
)
def _(z, n):
    return z.argmax(1)[:, 0]


@greedy.reject("argmin", "The most probable token has the largest logit.")
def _(z, n):
    return z[np.arange(len(z)), n - 1].argmin(-1)


def _kv_in(past, new, d=4):
    return lambda rng: (
        rng.normal(size=(new, d)),
        rng.normal(size=(past, d)),
        rng.normal(size=(past, d)),
        rng.normal(size=(new, d)),
        rng.normal(size=(new, d)),
    )


def _cached(q, kc, vc, k, v, keep=None):
    ks, vs = np.concatenate([kc, k]), np.concatenate([vc, v])
    n, m = len(q), len(ks)
    keep = np.tril(np.ones((n, m), bool), m - n) if keep is None else keep(n, m)
    return softmax(np.where(keep, q @ ks.T / np.sqrt(q.shape[1]), -np.inf)) @ vs


cache = Exercise(
    "decoding.kv_cache",
    "q, k, v are those of the new positions, k_cache, v_cache those of the earlier ones. Return "
    "the causal attention "
    "output of the new positions.",
    "def attend_cached(q, k_cache, v_cache, k, v): ...",
    _cached,
    {"one new token": _kv_in(5, 1), "a chunk": _kv_in(4, 3), "empty cache": _kv_in(0, 4)},
)


@cache.accept("two parts, joined by their sums")
def _(q, kc, vc, k, v):
    r = q.shape[1] ** -0.5
    a, b = np.exp(q @ kc.T * r), np.tril(np.exp(q @ k.T * r))
    return (a @ vc + b @ v) / (a.sum(1) + b.sum(1))[:, None]


@cache.reject("new keys put in front", "The cache holds the earlier positions: it comes first.")
def _(q, kc, vc, k, v):
    ks, vs = np.concatenate([k, kc]), np.concatenate([v, vc])
    keep = np.tril(np.ones((len(q), len(ks)), bool), len(kc))
    return softmax(np.where(keep, q @ ks.T / np.sqrt(q.shape[1]), -np.inf)) @ vs


@cache.reject(
    "new keys not stored",
    "A new token attends to itself, too: append its key and value before the product.",
)
def _(q, kc, vc, k, v):
    return softmax(q @ kc.T / np.sqrt(q.shape[1])) @ vc


@cache.reject("values not cached", "Keys and values must both be cached and stay aligned.")
def _(q, kc, vc, k, v):
    ks = np.concatenate([kc, k])
    keep = np.tril(np.ones((len(q), len(ks)), bool), len(kc))
    w = softmax(np.where(keep, q @ ks.T / np.sqrt(q.shape[1]), -np.inf))
    return w[:, len(kc) :] @ v


EXERCISES = [greedy, cache]
