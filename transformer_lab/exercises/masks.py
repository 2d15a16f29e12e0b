r"""Exercises on masks: how the softmax leaves out what a query may not see."""

from __future__ import annotations

import numpy as np

from ..attention.dot_product import masked_softmax
from ..attention.masks import Mask, padding_mask
from .adapt import with_tensors
from .core import Misconception, template_of
from .function import FunctionExercise, Property
from .numeric import softmax
from .values import Tolerance

CHAPTER = "06-masks"


def _hidden(scores: np.ndarray, keep: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return softmax(np.where(keep, scores, -np.inf))


def _masked(scores: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """The library's masked softmax, for scores and booleans of the same two last axes."""
    lead = scores.shape[:-2]
    T, S = scores.shape[-2:]

    def one(s, k):  # the mask as paths: one row for each query
        return masked_softmax(s, Mask(paths_BTS=k))

    flat = scores.reshape(1, -1, T, S)
    return with_tensors(one)(flat, keep[None]).reshape(*lead, T, S)


def _square(b: int, h: int, n: int):
    return lambda rng: (
        np.round(rng.normal(size=(b, h, n, n)) * 2, 1),
        np.tril(np.ones((n, n), bool)),
    )


APPLY = FunctionExercise(
    id="mask.apply",
    chapter=CHAPTER,
    title="A softmax over what may be seen",
    task="Turn `scores` (…, T, T) into weights of which the keys with `keep` == False get "
    "exactly 0 "
    "and every row sums to 1.",
    template=template_of("def masked_softmax(scores, keep): ..."),
    hints=(
        "What score has the exponential 0?",
        "The hidden keys must not take part in the sum below the fraction.",
    ),
    reference=_masked,
    names=("scores", "keep"),
    kinds={
        "two tokens": _square(1, 1, 2),
        "causal": _square(2, 3, 4),
        "one head": _square(1, 1, 5),
        "nothing hidden": lambda rng: (rng.normal(size=(2, 3, 4, 4)), np.ones((4, 4), bool)),
        "far apart within a row": lambda rng: (
            np.array([[[[0.0, 5, 9], [0, 900, 1], [-900, 0, 900]]]]),
            np.tril(np.ones((3, 3), bool)),
        ),
        "large scores": lambda rng: (
            np.round(rng.normal(size=(1, 2, 3, 3)) * 2 + 1000, 1),
            np.tril(np.ones((3, 3), bool)),
        ),
        "large and negative": lambda rng: (
            np.round(rng.normal(size=(1, 2, 3, 3)) * 2 - 1000, 1),
            np.tril(np.ones((3, 3), bool)),
        ),
    },
    properties=(
        Property(
            "A hidden key has no weight",
            lambda f, s, keep: (np.zeros(s.shape), f(s, keep) * ~keep),
        ),
        Property(
            "Every row sums to 1", lambda f, s, keep: (np.ones(s.shape[:-1]), f(s, keep).sum(-1))
        ),
        Property(
            "What stands in a hidden score changes nothing",
            lambda f, s, keep: (f(s, keep), f(np.where(keep, s, s + 3), keep)),
        ),
    ),
    misconceptions=(
        Misconception(
            "masks after the softmax",
            "The hidden keys get 0, but they took their share: your rows sum to less than 1.",
            lambda s, keep: softmax(s) * keep,
            "lucidrains/memory-compressed-attention#2",
        ),
        Misconception(
            "adds the boolean",
            "Adding True and False raises the kept scores by 1 and hides nothing.",
            lambda s, keep: softmax(s + keep),
            "pytorch/pytorch#141694",
        ),
        Misconception(
            "inverted",
            "You hide what is to be kept: True means keep here.",
            lambda s, keep: _hidden(s, ~keep),
            "lucidrains/x-transformers#164",
        ),
        Misconception(
            "hidden scores set to 0",
            "A score of 0 is an ordinary score: its exponential is 1, not 0.",
            lambda s, keep: softmax(np.where(keep, s, 0.0)),
        ),
    ),
)


def _padded(b: int, h: int, n: int, pads: bool = True):
    def draw(rng: np.random.Generator) -> tuple:
        ids = rng.integers(1, 9, size=(b, n))
        if pads:
            for row in range(b):
                ids[row, n - 1 - row % (n - 1) :] = 0
        return np.round(rng.normal(size=(b, h, n, n)) * 2, 1), ids

    return draw


def _over_padding(scores: np.ndarray, ids: np.ndarray) -> np.ndarray:
    return with_tensors(lambda s, i: masked_softmax(s, padding_mask(i)))(scores, ids)


PADDING = FunctionExercise(
    id="mask.padding",
    chapter=CHAPTER,
    title="A softmax that does not see padding",
    task="`scores` are (batch, heads, queries, keys), `ids` (batch, keys) hold 0 where a "
    "sentence is "
    "padded. Return weights that give nothing to padded keys; all queries are computed.",
    template=template_of("def padded_softmax(scores, ids): ..."),
    hints=(
        "What has to have which axis? The mask has a batch and keys, and the same for all heads "
        "and queries.",
        "Give it axes of length 1 where it is the same: (batch, 1, 1, keys).",
    ),
    reference=_over_padding,
    names=("scores", "ids"),
    kinds={
        "one sentence": _padded(1, 1, 2),
        "generic": _padded(2, 3, 5),
        "batch = heads": _padded(3, 3, 5),
        "batch = time": _padded(4, 2, 4),
        "no padding": _padded(2, 3, 4, False),
    },
    properties=(
        Property(
            "A padded key has no weight",
            lambda f, s, ids: (np.zeros(s.shape), f(s, ids) * (ids == 0)[:, None, None, :]),
        ),
        Property(
            "Every row sums to 1", lambda f, s, ids: (np.ones(s.shape[:-1]), f(s, ids).sum(-1))
        ),
    ),
    misconceptions=(
        Misconception(
            "head axis missing",
            "A (batch, 1, keys) mask meets (batch, heads, queries, keys) from the right: the batch "
            "falls on the heads. It only raises where the sizes differ.",
            lambda s, ids: _hidden(s, (ids != 0)[:, None, :]),
            "hyunwoongko/transformer#32",
        ),
        Misconception(
            "inverted",
            "You give all weight to the padding: the test must be ids != 0.",
            lambda s, ids: _hidden(s, np.broadcast_to((ids == 0)[:, None, None, :], s.shape)),
            "facebookresearch/detr#96",
        ),
        Misconception(
            "no mask",
            "Padded keys take part in the softmax.",
            lambda s, ids: softmax(s),
            "facebookresearch/SymbolicMathematics#19",
        ),
    ),
)


def _half(scale: float):
    def draw(rng: np.random.Generator) -> tuple:
        s = (rng.uniform(-1, 1, size=(3, 5)) * scale).astype(np.float16)
        keep = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [1, 0, 0, 0, 1]], bool)
        s[~keep] = np.float16(scale)  # the largest scores are the ones to hide
        return s, keep

    return draw


HALF = FunctionExercise(
    id="mask.half",
    chapter=CHAPTER,
    title="A mask in half precision",
    task="The same for float16 `scores` of any size up to 3e4: the weights must be finite, and "
    "those of "
    "hidden keys 0.",
    template=template_of("def masked_softmax_half(scores, keep): ..."),
    hints=(
        "How large can a float16 be? What becomes of -1e9 in it, and of 0 times that?",
        "Choose between two values instead of multiplying or adding.",
    ),
    reference=lambda s, keep: _masked(s.astype(np.float64), keep),
    names=("scores", "keep"),
    kinds={
        "small scores": _half(4.0),
        "scores of some hundreds": _half(500.0),
        "scores of 3e4": _half(3e4),
    },
    tolerance=Tolerance(0.0, 3e-3),
    misconceptions=(
        Misconception(
            "(1 - keep) * -1e9",
            "In float16 -1e9 is -inf, and 0 times -inf is nan: the kept scores are destroyed.",
            lambda s, keep: softmax(s + (1 - keep.astype(np.float16)) * np.float16(-np.inf)),
            "NVIDIA/apex#93",
        ),
        Misconception(
            "adds -1e4",
            "-10000 is not far enough below every float16: with scores of 3e4 hidden keys still "
            "win.",
            lambda s, keep: softmax(np.where(keep, s, s + np.float16(-1e4))),
            "facebookresearch/mmf#962",
        ),
        Misconception(
            "no mask",
            "Hidden keys take part in the softmax.",
            lambda s, keep: softmax(s.astype(np.float64)),
        ),
    ),
)


def _some_empty(empty: bool, shape: tuple = (4, 5)):
    def draw(rng: np.random.Generator) -> tuple:
        keep = rng.random(shape) < 0.6
        keep[:, 0] = True
        if empty:
            keep[1::2] = False
        return np.round(rng.normal(size=shape), 1), keep

    return draw


EMPTY_ROWS = FunctionExercise(
    id="mask.empty_rows",
    chapter=CHAPTER,
    title="A row in which nothing may be seen",
    task="As before, but a row without any visible key must become zeros.",
    template=template_of("def masked_softmax(scores, keep): ..."),
    hints=(
        "What is −inf − (−inf)?",
        "Treat rows without any True apart, or divide only where there is something to divide by.",
    ),
    reference=_masked,
    names=("scores", "keep"),
    kinds={
        "two rows": _some_empty(True, (2, 2)),
        "some rows empty": _some_empty(True),
        "large scores": lambda rng: (np.array([[999.0, 1000], [1, 2]]), np.eye(2, dtype=bool)),
        "far apart within a row": lambda rng: (
            np.array([[0.0, 900], [5, 6]]),
            np.array([[True, True], [False, False]]),
        ),
        "large and negative": lambda rng: (
            np.array([[-999.0, -1000, -1001], [1, 2, 3]]),
            np.array([[True, True, False], [False] * 3]),
        ),
        "no row empty": _some_empty(False),
    },
    properties=(
        Property(
            "A row sums to 1, or to 0 if it sees nothing",
            lambda f, s, keep: (keep.any(-1).astype(float), f(s, keep).sum(-1)),
        ),
    ),
    misconceptions=(
        Misconception(
            "-inf everywhere",
            "An empty row is −inf − (−inf) = nan, and the nan reaches every gradient.",
            _hidden,
            "pytorch/pytorch#131060",
        ),
        Misconception(
            "adds the fill to the scores",
            "The same large number added to a whole row cancels in the softmax: the empty row "
            "shows "
            "its unmasked weights.",
            lambda s, keep: softmax(s - 1e4 * ~keep),
        ),
        Misconception(
            "even weights for an empty row",
            "A row that sees nothing must not look at everything evenly: its weights are 0.",
            lambda s, keep: softmax(np.where(keep, s, -1e30)),
        ),
    ),
)

EXERCISES = (APPLY, PADDING, HALF, EMPTY_ROWS)
