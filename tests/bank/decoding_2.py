"""Decoding: temperature, top-k, top-p, penalties, beams, greedy choice, the key-value cache.

Part 2 of 3.
"""

import math

import numpy as np
from bank import Exercise, log_softmax, softmax, t, torch
from decoding_shared import _nucleus


def _both_in(tau, p):
    return lambda rng: (rng.normal(size=8) * 2, tau, p)


both = Exercise(
    "decoding.temperature_then_top_p",
    "Probabilities to sample from with temperature T and nucleus p: the nucleus is that of the "
    "tempered distribution.",
    "def distribution(logits, T, p): ...",
    lambda z, tau, p: _nucleus(softmax(z / tau), p),
    {
        "T = 2": _both_in(2.0, 0.7),
        "T = 0.5": _both_in(0.5, 0.9),
        "T = 1": _both_in(1.0, 0.8),
        "p = 1": _both_in(2.0, 1.0),
    },
)


@both.accept("logits set to -inf")
def _(z, tau, p):
    y = z / tau
    order = np.argsort(-y)
    q = softmax(y[order])
    y[order[np.cumsum(q) - q >= p - 1e-12]] = -np.inf
    return softmax(y)


@both.accept("powers of the probabilities")
def _(z, tau, p):
    q = softmax(z) ** (1 / tau)
    return _nucleus(q / q.sum(), p)


@both.reject(
    "temperature ignored by the nucleus' probabilities",
    "The set is right but the probabilities inside it are those of T = 1.",
)
def _(z, tau, p):
    q = np.where(_nucleus(softmax(z / tau), p) > 0, softmax(z), 0)
    return q / q.sum()


@both.reject("temperature twice", "T acts once, on the logits.", "RL-Align/RL-Kernel#81")
def _(z, tau, p):
    q = _nucleus(softmax(z / tau), p) ** (1 / tau)
    return q / q.sum()


def _rep_in(sign=0.0, seen=(1, 3, 3, 5)):
    return lambda rng: (rng.normal(size=7) + sign, list(seen), 1.5)


def _penal(z, seen, r):
    out = z.copy()
    for i in set(seen):
        out[i] = z[i] / r if z[i] > 0 else z[i] * r
    return out


repetition = Exercise(
    "decoding.repetition_penalty",
    "Make tokens that were seen less likely: divide a positive logit by r > 1, multiply a "
    "negative one by r; once for "
    "each token, however often it was seen.",
    "def penalise(logits, seen, r): ...",
    _penal,
    {
        "both signs": _rep_in(),
        "all positive": _rep_in(9.0),
        "all negative": _rep_in(-9.0),
        "no repeats": _rep_in(seen=(0, 2)),
        "nothing seen": _rep_in(seen=()),
    },
)


@repetition.accept("where")
def _(z, seen, r):
    hit = np.isin(np.arange(len(z)), seen)
    return np.where(hit, np.where(z < 0, z * r, z / r), z)


@repetition.accept("minus a share of the size")
def _(z, seen, r):
    out = z.copy()
    for i in sorted(set(seen)):
        out[i] -= max(z[i] * (1 - 1 / r), z[i] * (1 - r))
    return out


@repetition.accept("torch scatter")
def _(z, seen, r):
    z = t(z)
    i = torch.tensor(seen, dtype=torch.long)
    v = z[i]
    return z.scatter(0, i, torch.where(v < 0, v * r, v / r))


@repetition.reject(
    "always divides",
    "Dividing a negative logit makes the token more likely: multiply in that case.",
    "huggingface/transformers#2302 and #2303, NVIDIA-NeMo/Speech#8194, IEIT-Yuan/Yuan-2.0#112, "
    "panbanda/higgs#32",
)
def _(z, seen, r):
    out = z.copy()
    out[list(set(seen))] /= r
    return out


@repetition.reject("always multiplies", "Multiplying a positive logit makes the token more likely.")
def _(z, seen, r):
    out = z.copy()
    out[list(set(seen))] *= r
    return out


@repetition.reject(
    "once for every occurrence", "A token seen twice is punished twice; the task says once."
)
def _(z, seen, r):
    out = z.copy()
    for i in seen:
        out[i] = out[i] / r if out[i] > 0 else out[i] * r
    return out


@repetition.reject(
    "subtracts r",
    "That is a presence penalty (additive), not the multiplicative one.",
    "NVIDIA/FasterTransformer#777 (the two confused)",
)
def _(z, seen, r):
    out = z.copy()
    out[list(set(seen))] -= r
    return out


def _hyp_in(alpha, prompt=4):
    return lambda rng: ([-rng.exponential(size=n) for n in (2, 5, 9)], alpha, prompt)


beam_score = Exercise(
    "decoding.length_normalised_score",
    "Score finished hypotheses: sum of the log-probabilities of the generated tokens (end token "
    "included) divided by "
    "their number to the power alpha. The prompt's length is given but plays no part.",
    "def scores(logprobs, alpha, prompt_length): ...",
    lambda h, a, n: [lp.sum() / len(lp) ** a for lp in h],
    {
        "alpha = 1": _hyp_in(1.0),
        "alpha = 0.6": _hyp_in(0.6),
        "alpha = 0": _hyp_in(0.0),
        "no prompt": _hyp_in(1.0, 0),
    },
)


@beam_score.accept("product, then logarithm")
def _(h, a, n):
    return np.array([math.log(math.prod(np.exp(lp))) * len(lp) ** -a for lp in h])


@beam_score.reject(
    "prompt counted",
    "The prompt's tokens are in the length but not in the sum: short hypotheses are favoured.",
    "huggingface/transformers#26624",
)
def _(h, a, n):
    return [lp.sum() / (len(lp) + n) ** a for lp in h]


@beam_score.reject(
    "end token not counted",
    "The end token's probability is in the sum, so it counts in the length.",
    "awslabs/sockeye#483, huggingface/transformers#8722 (asked there)",
)
def _(h, a, n):
    return [lp.sum() / (len(lp) - 1) ** a for lp in h]


@beam_score.reject(
    "probabilities instead of logarithms",
    "Summing probabilities rewards length; the score is a sum of logarithms.",
    "OpenNMT/OpenNMT-py#1320 (scores and probabilities apart)",
)
def _(h, a, n):
    return [np.exp(lp).sum() / len(lp) ** a for lp in h]


@beam_score.reject(
    "multiplied by the length", "Divide by the length's power; log-probabilities are negative."
)
def _(h, a, n):
    return [lp.sum() * len(lp) ** a for lp in h]


@beam_score.reject("last token only", "The score is the sum over the whole hypothesis.")
def _(h, a, n):
    return [lp[-1] / len(lp) ** a for lp in h]


def _chain(v, width, steps, end_bias):
    """Log-probabilities of a Markov chain; token 0 starts, token 1 ends."""

    def make(rng):
        z = rng.normal(size=(v, v)) * 1.2
        z[:, 0] = -30
        z[:, 1] += end_bias
        return log_softmax(z), width, steps

    return make


def _trap(rng):
    """The best hypothesis grows from the second-best child of the best beam."""
    p = np.full((6, 6), 1e-4)
    p[0, 2:4] = 0.6, 0.4
    p[1] = 1 / 6
    p[2, 2:] = 0.2, 0.13, 0.34, 0.33
    p[3, 1:] = 0.1, 0.3, 0.3, 0.2, 0.1
    p[4, 1:] = 0.25, 0.25, 0.25, 0.15, 0.1
    p[5, 1] = 0.97
    return log_softmax(np.log(p) + rng.normal(size=p.shape) * 1e-3), 2, 3


def _beam(lp, width, steps):
    beams = [((0,), 0.0)]
    for _step in range(steps):
        pool = []
        for seq, s in beams:
            if len(seq) > 1 and seq[-1] == 1:
                pool.append((seq, s))
            else:
                pool += [(seq + (j,), s + lp[seq[-1], j]) for j in range(len(lp))]
        beams = sorted(pool, key=lambda x: -x[1])[:width]
    return max(beams, key=lambda x: x[1])


beam_search = Exercise(
    "decoding.beam_search",
    "Beam search over a Markov chain with log-probabilities lp[i, j]; token 0 starts, 1 ends. "
    "Every step extends the "
    "unfinished hypotheses by all tokens; finished ones stay in the beam with their score; the "
    "`width` best go on. "
    "Return the best (tokens, score) after `steps` steps.",
    "def beam_search(lp, width, steps): ...",
    _beam,
    {
        "generic": _chain(5, 3, 5, 0.0),
        "ends early": _chain(5, 3, 6, 1.5),
        "width 1": _chain(5, 1, 4, 0.5),
        "one step": _chain(5, 2, 1, 0.0),
        "best from a second child": _trap,
    },
    probe=lambda answer, *a: (lambda r: (tuple(map(float, r[0])), float(r[1])))(answer(*a)),
)


@beam_search.accept("arrays")
def _(lp, width, steps):
    v = len(lp)
    lp = lp.copy()
    lp[1] = np.where(
        np.arange(v) == 1, 0.0, -np.inf
    )  # an ended hypothesis repeats its end at no cost
    seqs, scores = np.zeros((1, 1), int), np.zeros(1)
    for _step in range(steps):
        total = (scores[:, None] + lp[seqs[:, -1]]).ravel()
        best = np.argsort(-total, kind="stable")[:width]
        best = best[np.isfinite(total[best])]
        seqs = np.hstack([seqs[best // v], (best % v)[:, None]])
        scores = total[best]
    seq = list(seqs[np.argmax(scores)])
    while len(seq) > 2 and seq[-1] == seq[-2] == 1:
        seq.pop()
    return tuple(seq), scores.max()


@beam_search.reject(
    "finished hypotheses go on",
    "A hypothesis that has ended is extended beyond its end token.",
    "awslabs/sockeye#233",
)
def _(lp, width, steps):
    beams = [((0,), 0.0)]
    for _step in range(steps):
        pool = [(seq + (j,), s + lp[seq[-1], j]) for seq, s in beams for j in range(len(lp))]
        beams = sorted(pool, key=lambda x: -x[1])[:width]
    return beams[0]


@beam_search.reject(
    "finished hypotheses lost",
    "Ended hypotheses drop out of the beam: keep them with their score.",
    "speechbrain/speechbrain#2253 (their score overwritten)",
)
def _(lp, width, steps):
    beams = [((0,), 0.0)]
    for _step in range(steps):
        pool = [
            (seq + (j,), s + lp[seq[-1], j])
            for seq, s in beams
            if seq[-1] != 1
            for j in range(len(lp))
        ]
        beams = sorted(pool, key=lambda x: -x[1])[:width] or beams
    return beams[0]


@beam_search.reject(
    "one child per beam",
    "Each beam keeps only its best continuation: rank all continuations together (from one "
    "start they "
    "would all be alike).",
)
def _(lp, width, steps):
    beams = sorted((((0, j), lp[0, j]) for j in range(len(lp))), key=lambda x: -x[1])[:width]
    for _step in range(steps - 1):
        beams = [
            b
            if b[0][-1] == 1
            else max(
                ((b[0] + (j,), b[1] + lp[b[0][-1], j]) for j in range(len(lp))), key=lambda x: x[1]
            )
            for b in beams
        ]
    return max(beams, key=lambda x: x[1])


@beam_search.reject(
    "stops at the first end",
    "The search ends as soon as any hypothesis ends, though a better one may still grow.",
    "joeynmt/joeynmt#149, neulab/xnmt#572",
)
def _(lp, width, steps):
    beams = [((0,), 0.0)]
    for _step in range(steps):
        pool = [(seq + (j,), s + lp[seq[-1], j]) for seq, s in beams for j in range(len(lp))]
        beams = sorted(pool, key=lambda x: -x[1])[:width]
        done = [b for b in beams if b[0][-1] == 1]
        if done:
            return done[0]
    return beams[0]


@beam_search.reject(
    "last hypothesis instead of the best",
    "The beam is sorted from the best down; you return its other end.",
)
def _(lp, width, steps):
    beams = [((0,), 0.0)]
    for _step in range(steps):
        pool = []
        for seq, s in beams:
            pool += (
                [(seq, s)]
                if seq[-1] == 1
                else [(seq + (j,), s + lp[seq[-1], j]) for j in range(len(lp))]
            )
        beams = sorted(pool, key=lambda x: -x[1])[:width]
    return beams[-1]


EXERCISES = [both, repetition, beam_score, beam_search]
