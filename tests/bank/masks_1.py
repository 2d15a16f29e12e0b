"""Masks: which keys a query may see. True means 'may be seen' throughout. Part 1 of 2."""

import numpy as np
from bank import Exercise, softmax, t, torch

NEG = -np.inf


def _weights(scores, keep):
    return softmax(np.where(keep, scores, NEG))


causal = Exercise(
    "mask.causal",
    "Return the (T, T) boolean causal mask: entry (i, j) is True when position i may see "
    "position j.",
    "def causal_mask(T): ...",
    lambda n: np.tril(np.ones((n, n), bool)),
    {"generic": lambda rng: (5,), "two": lambda rng: (2,), "one": lambda rng: (1,)},
)


@causal.accept("tril")
def _(n):
    return np.tril(np.ones((n, n))).astype(bool)


@causal.accept("comparison of positions")
def _(n):
    i = np.arange(n)
    return i[:, None] >= i


@causal.accept("complement of the strict upper triangle")
def _(n):
    return ~np.triu(np.ones((n, n), bool), k=1)


@causal.accept("loop, list of lists of 0 and 1")
def _(n):
    return np.array([[1 if j <= i else 0 for j in range(n)] for i in range(n)])


@causal.reject(
    "position cannot see itself",
    "The diagonal is False: a position may see itself. The first row has no key left and its "
    "softmax is nan.",
    "RVC-Boss/GPT-SoVITS#965, TransformerLensOrg/TransformerLens#284 (asked there)",
)
def _(n):
    return np.tril(np.ones((n, n), bool), k=-1)


@causal.reject(
    "upside down",
    "Your mask shows the future and hides the past: lower triangle, not upper (or it is a mask "
    "of what to hide).",
    "pytorch/examples#649, karpathy/nanoGPT#170",
)
def _(n):
    return np.triu(np.ones((n, n), bool))


def _scores_and_tri(b, h, n):
    return lambda rng: (rng.normal(size=(b, h, n, n)) * 2, np.tril(np.ones((n, n), bool)))


def _all_true(rng):
    return rng.normal(size=(2, 3, 4, 4)), np.ones((4, 4), bool)


apply = Exercise(
    "mask.apply",
    "Turn scores (.., T, T) into weights of which the keys with keep == False get exactly 0 and "
    "every row sums to 1.",
    "def masked_softmax(scores, keep): ...",
    _weights,
    {
        "causal": _scores_and_tri(2, 3, 4),
        "one head": _scores_and_tri(1, 1, 5),
        "nothing hidden": _all_true,
    },
)


@apply.accept("mask the exponentials, then normalise")
def _(s, keep):
    e = np.exp(s - s.max(-1, keepdims=True)) * keep
    return e / e.sum(-1, keepdims=True)


@apply.accept("softmax, mask, normalise again")
def _(s, keep):
    w = softmax(s) * keep
    return w / w.sum(-1, keepdims=True)


@apply.accept("torch masked_fill")
def _(s, keep):
    return torch.softmax(t(s).masked_fill(~t(keep), float("-inf")), -1)


@apply.reject(
    "masks after the softmax",
    "The hidden keys get 0, but they took their share: your rows sum to less than 1.",
    "lucidrains/memory-compressed-attention#2, rasbt/LLMs-from-scratch#279",
)
def _(s, keep):
    return softmax(s) * keep


@apply.reject(
    "adds the boolean",
    "Adding True and False raises the kept scores by 1 and hides nothing; add 0 and -inf.",
    "pytorch/pytorch#141694, pytorch/pytorch#33763",
)
def _(s, keep):
    return softmax(s + keep)


@apply.reject(
    "inverted",
    "You hide what is to be kept: True means keep here.",
    "lucidrains/x-transformers#164, pytorch/pytorch#39321",
)
def _(s, keep):
    return _weights(s, ~keep)


def _padded(b, h, n, pads=True):
    def make(rng):
        ids = rng.integers(1, 9, size=(b, n))
        if pads:
            for row in range(b):
                ids[row, n - 1 - row % (n - 1) :] = 0
        return rng.normal(size=(b, h, n, n)) * 2, ids

    return make


padding = Exercise(
    "mask.padding",
    "Scores are (batch, heads, queries, keys), ids (batch, keys) hold 0 where the sentence is "
    "padded. Return "
    "weights that give no weight to padded keys (all queries, also padded ones, are computed).",
    "def padded_softmax(scores, ids): ...",
    lambda s, ids: _weights(s, (ids != 0)[:, None, None, :]),
    {
        "generic": _padded(2, 3, 5),
        "batch = heads": _padded(3, 3, 5),
        "batch = time": _padded(4, 2, 4),
        "no padding": _padded(2, 3, 4, False),
        "one sentence": _padded(1, 2, 4),
    },
)


@padding.accept("mask of shape (batch, 1, 1, keys)")
def _(s, ids):
    return softmax(np.where((ids != 0).reshape(len(ids), 1, 1, -1), s, -np.inf))


@padding.accept("loop over sentences, real keys only")
def _(s, ids):
    out = np.zeros_like(s)
    for b, row in enumerate(ids):
        real = np.flatnonzero(row)
        out[b][..., real] = softmax(s[b][..., real])
    return out


@padding.reject(
    "head axis missing",
    "A (batch, 1, keys) mask meets (batch, heads, queries, keys) from the right: batch falls on "
    "heads. "
    "It only raises when the sizes differ.",
    "hyunwoongko/transformer#32, phlippe/uvadlc_notebooks#67",
)
def _(s, ids):
    return _weights(s, (ids != 0)[:, None, :])


@padding.reject(
    "inverted",
    "You give all weight to the padding: the test must be ids != 0.",
    "facebookresearch/detr#96, pytorch/pytorch#39321",
)
def _(s, ids):
    return _weights(s, np.broadcast_to((ids == 0)[:, None, None, :], s.shape))


@padding.reject(
    "no mask", "Padded keys take part in the softmax.", "facebookresearch/SymbolicMathematics#19"
)
def _(s, ids):
    return softmax(s)


def _half(scale, empty=False):
    def make(rng):
        s = (rng.uniform(-1, 1, size=(3, 5)) * scale).astype(np.float16)
        keep = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [1, 0, 0, 0, 1]], bool)
        s[~keep] = np.float16(scale)  # the largest scores are the ones to hide
        return s, keep

    return make


half = Exercise(
    "mask.half",
    "The same as mask.apply for float16 scores of any size up to 3e4; the weights must be "
    "finite and the hidden keys 0.",
    "def masked_softmax_half(scores, keep): ...",
    lambda s, keep: _weights(s.astype(np.float64), keep),
    {
        "small scores": _half(4.0),
        "scores of some hundreds": _half(500.0),
        "scores of 3e4": _half(3e4),
    },
    rtol=0,
    atol=3e-3,
)


@half.accept("float32 inside")
def _(s, keep):
    return softmax(np.where(keep, s.astype(np.float32), -1e9)).astype(np.float16)


@half.accept("-inf in float16")
def _(s, keep):
    return softmax(np.where(keep, s, np.float16(-np.inf)))


@half.accept("smallest float16 number as fill")
def _(s, keep):
    return softmax(np.where(keep, s, np.finfo(np.float16).min))


@half.accept("torch masked_fill with -inf")
def _(s, keep):
    x = torch.from_numpy(s.copy()).masked_fill(~torch.from_numpy(keep), float("-inf"))
    return torch.softmax(x.float(), -1)


@half.reject(
    "(1 - keep) * -1e9",
    "In float16 -1e9 is -inf, and 0 * -inf is nan: the kept scores are destroyed. Choose with "
    "where, "
    "or use finfo(dtype).min.",
    "NVIDIA/apex#93, ahrefs/ocannl#548",
)
def _(s, keep):
    return softmax(s + (1 - keep.astype(np.float16)) * np.float16(-1e9))


@half.reject(
    "adds -1e4",
    "-10000 is not far enough below every float16 score: with scores of 3e4 the hidden keys "
    "still win.",
    "facebookresearch/mmf#962, hyunwoongko/transformer#40, NVIDIA/apex#1105 (fills of that size)",
)
def _(s, keep):
    return softmax(np.where(keep, s, s + np.float16(-1e4)))


def _some_empty(empty):
    def make(rng):
        keep = rng.random((4, 5)) < 0.6
        keep[:, 0] = True
        if empty:
            keep[1] = False
            keep[3] = False
        return rng.normal(size=(4, 5)), keep

    return make


empty_rows = Exercise(
    "mask.empty_rows",
    "As mask.apply, but a row without any visible key must become zeros.",
    "def masked_softmax(scores, keep): ...",
    lambda s, keep: (
        np.where(keep.any(-1, keepdims=True), softmax(np.where(keep, s, -1e300)), 0.0) * keep
    ),
    {"some rows empty": _some_empty(True), "no row empty": _some_empty(False)},
)


@empty_rows.accept("mask the exponentials, divide where possible")
def _(s, keep):
    e = np.exp(s - s.max(-1, keepdims=True)) * keep
    z = e.sum(-1, keepdims=True)
    return np.divide(e, z, out=np.zeros_like(e), where=z > 0)


@empty_rows.accept("softmax of -inf, nan set to 0")
def _(s, keep):
    return np.nan_to_num(_weights(s, keep), nan=0.0)


@empty_rows.accept("loop")
def _(s, keep):
    out = np.zeros_like(s)
    for i in range(len(s)):
        if keep[i].any():
            out[i, keep[i]] = softmax(s[i, keep[i]])
    return out


@empty_rows.reject(
    "-inf everywhere",
    "An empty row is -inf - (-inf) = nan, and the nan reaches every gradient.",
    "pytorch/pytorch#131060 (with #41508, #103749), tracel-ai/burn#4697, iree-org/iree#24175",
)
def _(s, keep):
    return _weights(s, keep)


@empty_rows.reject(
    "adds the fill to the scores",
    "Adding the same large number to a whole row cancels in the softmax: the empty row shows its "
    "unmasked weights.",
)
def _(s, keep):
    return softmax(s - 1e4 * ~keep)


EXERCISES = [causal, apply, padding, half, empty_rows]
