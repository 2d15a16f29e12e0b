"""Losses: cross-entropy, its shift, its mean, its gradient; label smoothing; perplexity.

Part 2 of 2.
"""

import numpy as np
from bank import Exercise, log_softmax, softmax, t, torch
from losses_shared import _cls, _pick


def _smooth_in(n, k, eps):
    return lambda rng: (rng.normal(size=(n, k)), rng.integers(0, k, size=n), eps)


def _smoothed(z, q):
    return -(q * log_softmax(z)).sum(1).mean()


smooth = Exercise(
    "losses.label_smoothing",
    "Cross-entropy with label smoothing eps: the target distribution is (1-eps) * one-hot + "
    "eps/K over all K classes, "
    "the true one included.",
    "def smoothed_loss(logits, targets, eps): ...",
    lambda z, y, eps: _smoothed(z, (1 - eps) * np.eye(z.shape[1])[y] + eps / z.shape[1]),
    {
        "generic": _smooth_in(5, 4, 0.1),
        "many classes": _smooth_in(4, 50, 0.1),
        "eps = 0": _smooth_in(4, 4, 0.0),
    },
)


@smooth.accept("mixture of two losses")
def _(z, y, eps):
    lp = log_softmax(z)
    return np.mean((1 - eps) * -_pick(lp, y) + eps * -lp.mean(1))


@smooth.accept("others eps/K, true class the rest")
def _(z, y, eps):
    n, k = z.shape
    q = np.full((n, k), eps / k)
    q[np.arange(n), y] = 1 - eps * (k - 1) / k
    return _smoothed(z, q)


@smooth.accept("torch label_smoothing")
def _(z, y, eps):
    return torch.nn.functional.cross_entropy(t(z), t(y), label_smoothing=eps)


@smooth.reject(
    "eps/(K-1) over the others",
    "You share eps among the K-1 other classes. That convention exists; here all K classes "
    "share it.",
    "jadore801120/attention-is-all-you-need-pytorch#50, pytorch/pytorch#7455, "
    "JIA-Lab-research/MiSLAS#4",
)
def _(z, y, eps):
    n, k = z.shape
    q = np.full((n, k), eps / (k - 1))
    q[np.arange(n), y] = 1 - eps
    return _smoothed(z, q)


@smooth.reject(
    "eps/K for the others, 1 - eps for the true class",
    "Your target sums to 1 - eps/K: the true class gets 1 - eps + eps/K.",
)
def _(z, y, eps):
    n, k = z.shape
    q = np.full((n, k), eps / k)
    q[np.arange(n), y] = 1 - eps
    return _smoothed(z, q)


@smooth.reject(
    "1/K instead of eps/K", "The uniform part lacks the factor eps.", "TimDettmers/ConvE#55"
)
def _(z, y, eps):
    return _smoothed(z, (1 - eps) * np.eye(z.shape[1])[y] + 1 / z.shape[1])


@smooth.reject("smooths the prediction", "The target is smoothed, not the model's probabilities.")
def _(z, y, eps):
    p = (1 - eps) * softmax(z) + eps / z.shape[1]
    return -np.log(_pick(p, y)).mean()


def _batches(sizes):
    return lambda rng: ([float(k * rng.uniform(1, 4)) for k in sizes], list(sizes))


perplexity = Exercise(
    "losses.perplexity",
    "Each batch gives the sum of its tokens' losses (nats) and their number. Return the "
    "perplexity of the whole text.",
    "def perplexity(loss_sums, token_counts): ...",
    lambda s, n: np.exp(sum(s) / sum(n)),
    {
        "uneven batches": _batches([10, 3, 50]),
        "even batches": _batches([8, 8, 8]),
        "one batch": _batches([12]),
    },
)


@perplexity.accept("weighted mean of the means")
def _(s, n):
    s, n = np.array(s), np.array(n)
    return np.exp(np.average(s / n, weights=n))


@perplexity.accept("power of 2 with bits")
def _(s, n):
    return 2 ** (sum(s) / np.log(2) / sum(n))


@perplexity.accept("weighted geometric mean of the batches' perplexities")
def _(s, n):
    out = 1.0
    for a, k in zip(s, n):
        out *= np.exp(a / k) ** (k / sum(n))
    return out


@perplexity.reject(
    "mean of the perplexities",
    "Averaging perplexities is not the perplexity of the average: sum the losses, exponentiate "
    "once.",
    "magenta/magenta#239, keras-team/keras-hub#2958, facebookresearch/ParlAI#623, "
    "huggingface/evaluate#551",
)
def _(s, n):
    return np.mean([np.exp(a / k) for a, k in zip(s, n)])


@perplexity.reject(
    "unweighted mean of the batch losses",
    "A short last batch counts as much as a full one: weight by tokens.",
    "huggingface/transformers#34387, macournoyer/neuralconvo#67",
)
def _(s, n):
    return np.exp(np.mean([a / k for a, k in zip(s, n)]))


@perplexity.reject(
    "per batch instead of per token",
    "Divide by the number of tokens, not of batches.",
    "apache/mxnet#5905 (dependence on the batch size)",
)
def _(s, n):
    return np.exp(sum(s) / len(s))


@perplexity.reject("no exponential", "That is the mean loss; the perplexity is its exponential.")
def _(s, n):
    return sum(s) / sum(n)


ce_grad = Exercise(
    "losses.cross_entropy_gradient",
    "Return the gradient of the mean cross-entropy of logits (N, K) and targets (N,) by logits.",
    "def cross_entropy_gradient(logits, targets): ...",
    lambda z, y: (softmax(z) - np.eye(z.shape[1])[y]) / len(y),
    {"generic": _cls(5, 4), "one row": _cls(1, 4), "N = K": _cls(4, 4)},
)


@ce_grad.accept("subtract in place on a copy")
def _(z, y):
    p = softmax(z)
    p[np.arange(len(y)), y] -= 1
    return p / len(y)


@ce_grad.accept("Jacobian times -1/p")
def _(z, y):
    out = []
    for row, c in zip(z, y):
        p = softmax(row)
        g = np.zeros_like(p)
        g[c] = -1 / p[c] / len(y)
        out.append((np.diag(p) - np.outer(p, p)) @ g)
    return np.stack(out)


@ce_grad.reject(
    "sign turned", "It is p - y, not y - p.", "mantasu/cs231n#10 (the sign, asked there)"
)
def _(z, y):
    return (np.eye(z.shape[1])[y] - softmax(z)) / len(y)


@ce_grad.reject("divided by all entries", "Divide by the number of rows N, not by N*K.")
def _(z, y):
    return (softmax(z) - np.eye(z.shape[1])[y]) / z.size


@ce_grad.reject(
    "gradient by the probabilities",
    "-y/p is the gradient by the probabilities; go on through the softmax to the logits.",
    "ai.stackexchange.com question 35741",
)
def _(z, y):
    return -np.eye(z.shape[1])[y] / softmax(z) / len(y)


@ce_grad.reject(
    "softmax derivative twice",
    "p - y already contains the softmax's derivative; p*(1-p) is applied once too often.",
    "SebLague/Neural-Network-Experiments#5, RubixML/ML#438 (where the shortcut hides the error)",
)
def _(z, y):
    p = softmax(z)
    return (p - np.eye(z.shape[1])[y]) * p * (1 - p) / len(y)


EXERCISES = [smooth, perplexity, ce_grad]
