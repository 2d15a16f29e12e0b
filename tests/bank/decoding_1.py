"""Decoding: temperature, top-k, top-p, penalties, beams, greedy choice, the key-value cache.

Part 1 of 3.
"""

import numpy as np
from bank import Exercise, log_softmax, softmax, t, torch
from decoding_shared import _nucleus


def _temp(tau, big=False):
    return lambda rng: (rng.normal(size=7) * (300 if big else 2), tau)


def _hot(z, tau):
    if tau == 0:
        return np.eye(len(z))[np.argmax(z)]
    return softmax(z / tau)


temperature = Exercise(
    "decoding.temperature",
    "Return the probabilities of softmax(logits / T); T = 0 means the limit, all weight on the "
    "largest logit.",
    "def tempered(logits, T): ...",
    _hot,
    {
        "T = 0.7": _temp(0.7),
        "T = 2": _temp(2.0),
        "T = 1": _temp(1.0),
        "T = 0": _temp(0.0),
        "T = 1e-3, large logits": _temp(1e-3, True),
    },
)


@temperature.accept("log-sum-exp")
def _(z, tau):
    if tau == 0:
        return (np.arange(len(z)) == z.argmax()).astype(float)
    y = z / tau
    return np.exp(y - np.logaddexp.reduce(y))


@temperature.accept("probabilities to the power 1/T, normalised again")
def _(z, tau):
    if tau == 0:
        p = np.zeros(len(z))
        p[max(range(len(z)), key=lambda i: z[i])] = 1
        return p
    lp = log_softmax(z)
    p = np.exp((lp - lp.max()) / tau)
    return p / p.sum()


@temperature.accept("softmax of the log-probabilities divided by T")
def _(z, tau):
    return softmax(log_softmax(z) / tau) if tau > 0 else np.where(z == z.max(), 1.0, 0.0)


@temperature.accept("torch")
def _(z, tau):
    z = t(z)
    return (
        torch.softmax(z / tau, -1)
        if tau
        else torch.nn.functional.one_hot(z.argmax(), len(z)).double()
    )


@temperature.reject(
    "temperature after the softmax",
    "Dividing the probabilities by T changes nothing once they are normalised: divide the logits.",
    "google/gemma.cpp#981",
)
def _(z, tau):
    if tau == 0:
        return _hot(z, 0)
    p = softmax(z) / tau
    return p / p.sum()


@temperature.reject(
    "probabilities divided, not normalised",
    "softmax(z)/T does not sum to 1: divide the logits before the softmax.",
)
def _(z, tau):
    return softmax(z) / tau if tau else _hot(z, 0)


@temperature.reject(
    "applied twice",
    "The logits were divided by T in two places: that is T squared.",
    "RL-Align/RL-Kernel#81, Adibvafa/CodonTransformer#20",
)
def _(z, tau):
    return softmax(z / tau / tau) if tau else _hot(z, 0)


@temperature.reject(
    "division by zero at T = 0",
    "T = 0 divides by zero: take the argmax in that case.",
    "karpathy/nanoGPT#738, google-deepmind/gemma#562, suno-ai/bark#270",
)
def _(z, tau):
    return softmax(z / np.float64(tau))


def _topk_in(k, v=8):
    return lambda rng: (rng.normal(size=(2, v)), k)


def _topk(z, k):
    k = min(k, z.shape[-1])
    cut = np.sort(z, -1)[:, -k][:, None]
    return np.where(z >= cut, z, -np.inf)


top_k = Exercise(
    "decoding.top_k",
    "Keep the k largest logits of each row, set the others to -inf, in the original order; k "
    "may exceed the vocabulary. "
    "(No ties.)",
    "def top_k(logits, k): ...",
    _topk,
    {
        "k = 3": _topk_in(3),
        "k = 1": _topk_in(1),
        "k = all": _topk_in(8),
        "k larger than all": _topk_in(20),
    },
)


@top_k.accept("argpartition")
def _(z, k):
    out = np.full_like(z, -np.inf)
    best = np.argsort(-z, -1)[:, :k]
    np.put_along_axis(out, best, np.take_along_axis(z, best, -1), -1)
    return out


@top_k.accept("ranks")
def _(z, k):
    rank = (z[:, None, :] > z[:, :, None]).sum(-1)
    return np.where(rank < k, z, -np.inf)


@top_k.reject(
    "k + 1 kept",
    "One too many: index k of the sorted list is the (k+1)-th.",
    "kingoflolz/mesh-transformer-jax#164",
)
def _(z, k):
    k = min(k + 1, z.shape[-1])
    return np.where(z >= np.sort(z, -1)[:, -k][:, None], z, -np.inf)


@top_k.reject(
    "smallest kept",
    "Ascending order: you kept the k smallest.",
    "EricLBuehler/mistral.rs#1316 (review: the mask on the wrong side)",
)
def _(z, k):
    k = min(k, z.shape[-1])
    return np.where(z <= np.sort(z, -1)[:, k - 1][:, None], z, -np.inf)


@top_k.reject("zero instead of -inf", "A logit of 0 still has probability: use -inf.")
def _(z, k):
    y = _topk(z, k)
    return np.where(np.isinf(y), 0.0, y)


@top_k.reject(
    "sorted order returned",
    "The result is in sorted order, so token numbers no longer fit: write the values back to "
    "their places.",
)
def _(z, k):
    return -np.sort(-_topk(z, k), -1)


def _topp_in(p, kind="random"):
    def make(rng):
        if kind == "peaked":
            q = np.array([0.02, 0.9, 0.05, 0.03])
        elif kind == "ties":
            q = np.array([0.1, 0.3, 0.1, 0.3, 0.1, 0.1])
        else:
            q = softmax(rng.normal(size=8) * 1.5)
        return rng.permutation(q), p

    return make


def _up_to_ties(answer, q, p):
    """Which of several equal tokens is kept is free; how many and with what weight is not."""
    out = np.asarray(answer(q.copy(), p), dtype=float)
    if len(set(q)) == len(q):
        return out
    return np.sort(out), np.array([np.sort(out[q == v]).sum() for v in sorted(set(q))])


top_p = Exercise(
    "decoding.top_p",
    "Nucleus sampling: keep the smallest set of most probable tokens whose probability reaches "
    "p, set the others to 0 "
    "and normalise. At least one token stays; among equals any may be chosen.",
    "def top_p(probs, p): ...",
    _nucleus,
    {
        "p = 0.6": _topp_in(0.6),
        "p = 0.9": _topp_in(0.9),
        "one token above p": _topp_in(0.6, "peaked"),
        "ties": _topp_in(0.65, "ties"),
        "p = 1": _topp_in(1.0),
    },
    probe=_up_to_ties,
)


@top_p.accept("mask moved by one place")
def _(q, p):
    order = np.argsort(q)[::-1]
    reached = np.cumsum(q[order]) >= p - 1e-12
    drop = np.concatenate([[False], reached[:-1]])
    out = q.copy()
    out[order[drop]] = 0
    return out / out.sum()


@top_p.accept("take until reached")
def _(q, p):
    out, mass = np.zeros_like(q), 0.0
    for i in sorted(range(len(q)), key=lambda i: -q[i]):
        if mass >= p - 1e-12:
            break
        out[i] = q[i]
        mass += q[i]
    return out / mass


@top_p.accept("search in the cumulative sum")
def _(q, p):
    order = np.lexsort((np.arange(len(q)), -q))
    n = min(np.searchsorted(np.cumsum(q[order]), p - 1e-12) + 1, len(q))
    out = np.zeros_like(q)
    out[order[:n]] = q[order[:n]]
    return out / out.sum()


@top_p.reject(
    "crossing token dropped",
    "The token that carries the sum over p belongs to the set; yours stays below p (and may be "
    "empty).",
    "thu-nics/C2C#21, fishaudio/fish-speech#1171, Biohub/esm#360, hw-native-sys/pypto-lib#160 "
    "(review)",
)
def _(q, p):
    order = np.argsort(-q)
    keep = order[np.cumsum(q[order]) <= p + 1e-12]
    keep = keep if len(keep) else order[:1]
    out = np.zeros_like(q)
    out[keep] = q[keep]
    return out / out.sum()


@top_p.reject(
    "empty set when one token exceeds p",
    "If the first token alone exceeds p nothing is left: keep at least one.",
)
def _(q, p):
    order = np.argsort(-q)
    keep = order[np.cumsum(q[order]) <= p + 1e-12]
    out = np.zeros_like(q)
    out[keep] = q[keep]
    return out / out.sum()


@top_p.reject(
    "threshold 1 - p",
    "The tokens are sorted from the top, so the threshold is p, not 1 - p.",
    "lucidrains/x-transformers#184",
)
def _(q, p):
    return _nucleus(q, max(1 - p, 1e-9))


@top_p.reject(
    "mask not brought back to the original order",
    "The mask belongs to the sorted tokens, but you applied it to the unsorted ones: scatter it "
    "back.",
    "lucidrains/PaLM-rlhf-pytorch#60 (indices of indices in the scatter)",
)
def _(q, p):
    s = -np.sort(-q)
    keep = np.cumsum(s) - s < p - 1e-12
    out = np.where(keep, q, 0)
    return out / out.sum()


@top_p.reject("ascending order", "Sorted from the least probable: the set is made of the tail.")
def _(q, p):
    order = np.argsort(q)
    before = np.cumsum(q[order]) - q[order]
    out = np.zeros_like(q)
    keep = order[before < p - 1e-12]
    out[keep] = q[keep]
    return out / out.sum()


@top_p.reject(
    "keeps all tokens above p", "p is a bound for the sum, not for the single probability."
)
def _(q, p):
    out = np.where(q >= 1 - p, q, 0.0)
    return out / out.sum()


EXERCISES = [temperature, top_k, top_p]
