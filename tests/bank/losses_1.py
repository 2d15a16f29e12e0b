"""Losses: cross-entropy, its shift, its mean, its gradient; label smoothing; perplexity.

Part 1 of 2.
"""

import numpy as np
from bank import Exercise, log_softmax, softmax, t, torch
from losses_shared import _cls, _pick


def _lm(b, n, v):
    return lambda rng: (rng.normal(size=(b, n, v)) * 2, rng.integers(0, v, size=(b, n)))


shift = Exercise(
    "losses.next_token",
    "logits (B, T, V) are a causal model's output for ids (B, T): position t predicts token "
    "t+1. Return the mean "
    "cross-entropy in nats.",
    "def next_token_loss(logits, ids): ...",
    lambda z, ids: -_pick(log_softmax(z[:, :-1]), ids[:, 1:]).mean(),
    {"generic": _lm(2, 5, 7), "one row": _lm(1, 6, 4), "two tokens": _lm(3, 2, 5)},
)


@shift.accept("loop")
def _(z, ids):
    b, n, _v = z.shape
    total = sum(-np.log(softmax(z[i, p])[ids[i, p + 1]]) for i in range(b) for p in range(n - 1))
    return total / (b * (n - 1))


@shift.accept("one-hot product")
def _(z, ids):
    hot = np.eye(z.shape[-1])[ids[:, 1:]]
    return -(hot * log_softmax(z)[:, :-1]).sum() / ids[:, 1:].size


@shift.accept("torch, flattened after the shift")
def _(z, ids):
    return torch.nn.functional.cross_entropy(t(z)[:, :-1].flatten(0, 1), t(ids)[:, 1:].flatten())


@shift.reject(
    "no shift",
    "Position t is scored on token t, which it has seen: compare logits[:, :-1] with ids[:, 1:].",
    "huggingface/transformers#10480, macrocosm-os/pretraining#64, "
    "huggingface/transformers#35066 (asked there)",
)
def _(z, ids):
    return -_pick(log_softmax(z), ids).mean()


@shift.reject(
    "shifted backwards", "Position t+1 is scored on token t: the slices are the wrong way round."
)
def _(z, ids):
    return -_pick(log_softmax(z[:, 1:]), ids[:, :-1]).mean()


@shift.reject(
    "divided by T instead of T - 1",
    "Only T-1 positions have a target: divide by B*(T-1).",
    "kimiyoung/transformer-xl#131",
)
def _(z, ids):
    return -_pick(log_softmax(z[:, :-1]), ids[:, 1:]).sum() / ids.size


def _masked(lengths, n=6, v=5):
    def make(rng):
        y = rng.integers(0, v, size=(len(lengths), n))
        for row, k in enumerate(lengths):
            y[row, k:] = -100
        return rng.normal(size=(len(lengths), n, v)) * 2, y

    return make


def _nll(z, y):
    keep = y != -100
    return -_pick(log_softmax(z), np.where(keep, y, 0)), keep


ignore = Exercise(
    "losses.ignore_padding",
    "Mean cross-entropy over the targets that are not -100 (padding), all counted equally.",
    "def masked_loss(logits, targets): ...",
    lambda z, y: (lambda l, k: l[k].mean())(*_nll(z, y)),
    {
        "uneven rows": _masked([6, 2, 3]),
        "120 classes": _masked([6, 2, 3], v=120),
        "even rows": _masked([4, 4]),
        "no padding": _masked([6, 6]),
    },
)


@ignore.accept("weights")
def _(z, y):
    loss, keep = _nll(z, y)
    return (loss * keep).sum() / keep.sum()


@ignore.accept("torch ignore_index")
def _(z, y):
    return torch.nn.functional.cross_entropy(t(z).flatten(0, 1), t(y).flatten(), ignore_index=-100)


@ignore.reject(
    "mean of the rows' means",
    "A short sentence weighs as much as a long one: average over tokens, not over rows.",
    "meta-pytorch/torchtune#1875, allenai/open-instruct#1137",
)
def _(z, y):
    loss, keep = _nll(z, y)
    return ((loss * keep).sum(1) / keep.sum(1)).mean()


@ignore.reject(
    "negative index wraps round",
    "-100 is a valid index from the end as soon as there are 100 classes: mask the position "
    "before you pick.",
)
def _(z, y):
    return -_pick(log_softmax(z), y).mean()


@ignore.reject(
    "sum divided by the number of rows",
    "You divide by the number of sentences, not of tokens.",
    "OpenNMT/OpenNMT-py#526",
)
def _(z, y):
    loss, keep = _nll(z, y)
    return (loss * keep).sum() / len(y)


from_logits = Exercise(
    "losses.from_logits",
    "Mean cross-entropy in nats of logits (N, K) and integer targets; logits may be as large as "
    "1000.",
    "def cross_entropy(logits, targets): ...",
    lambda z, y: -_pick(log_softmax(z), y).mean(),
    {"moderate": _cls(6, 5), "large": _cls(6, 5, 400.0), "two classes": _cls(5, 2)},
)


@from_logits.accept("log-sum-exp")
def _(z, y):
    m = z.max(1)
    return np.mean(m + np.log(np.exp(z - m[:, None]).sum(1)) - z[np.arange(len(y)), y])


@from_logits.accept("differences to the target's logit")
def _(z, y):
    return np.mean([np.logaddexp.reduce(row - row[c]) for row, c in zip(z, y)])


@from_logits.accept("torch")
def _(z, y):
    return torch.nn.functional.cross_entropy(t(z), t(y))


@from_logits.reject(
    "softmax twice",
    "The probabilities went through a second softmax: the loss can then never come near 0. Give "
    "the "
    "loss the raw logits.",
    "tflearn/tflearn#562, ariecattan/SciCo#2, bowang-lab/Transformer-GCN-QA#32, "
    "Lightning-Universe/lightning-bolts#654",
)
def _(z, y):
    return -_pick(log_softmax(softmax(z)), y).mean()


@from_logits.reject(
    "naive logarithm of the softmax",
    "Probabilities underflow to 0 and the logarithm becomes -inf (or exp overflows): use "
    "log-sum-exp.",
)
def _(z, y):
    e = np.exp(z)
    return -np.log(_pick(e / e.sum(1, keepdims=True), y)).mean()


@from_logits.reject(
    "mean over classes, too",
    "The one-hot sum over the classes is a sum, not a mean: you are too small by the factor K.",
)
def _(z, y):
    return -(np.eye(z.shape[1])[y] * log_softmax(z)).mean()


@from_logits.reject("sign forgotten", "The loss is minus the log-probability.")
def _(z, y):
    return _pick(log_softmax(z), y).mean()


EXERCISES = [shift, ignore, from_logits]
