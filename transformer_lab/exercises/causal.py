r"""Exercises on the causal mask: which key a query may see, without and with a cache."""

from __future__ import annotations

import numpy as np

from ..attention.masks import CAUSAL
from .core import Misconception, template_of
from .function import FunctionExercise, Property
from .masks import CHAPTER


def _lower(t: int, s: int) -> np.ndarray:
    """The causal mask of the library, as booleans; one query sees everything."""
    allowed = CAUSAL.dense(t, s)
    return np.ones((t, s), bool) if allowed is None else allowed[0, 0].numpy()


CAUSAL_MASK = FunctionExercise(
    id="mask.causal",
    chapter=CHAPTER,
    title="The causal mask",
    task="Return the (T, T) boolean causal mask: entry [i, j] is True where position i may see "
    "position j.",
    template=template_of("def causal_mask(T): ..."),
    hints=(
        "Write down the row of the second of three positions.",
        "Compare positions: a key may be seen if it is not later than the query.",
    ),
    reference=lambda n: _lower(n, n),
    names=("T",),
    kinds={"one": lambda rng: (1,), "two": lambda rng: (2,), "generic": lambda rng: (5,)},
    properties=(
        Property(
            "Every position sees itself",
            lambda f, n: (np.ones(n), np.diag(np.asarray(f(n), float))),
        ),
    ),
    misconceptions=(
        Misconception(
            "position cannot see itself",
            "The diagonal is False: a position may see itself. The first row has no key left, and "
            "its softmax is nan.",
            lambda n: np.tril(np.ones((n, n), bool), k=-1),
            "RVC-Boss/GPT-SoVITS#965",
        ),
        Misconception(
            "upside down",
            "Your mask shows the future and hides the past (or it says what to hide).",
            lambda n: np.triu(np.ones((n, n), bool)),
            "pytorch/examples#649",
        ),
        Misconception(
            "what to hide instead of what to show",
            "True means *may be seen* here; you mark what is to be hidden.",
            lambda n: np.triu(np.ones((n, n), bool), k=1),
        ),
    ),
)


WITH_CACHE = FunctionExercise(
    id="mask.causal_with_cache",
    chapter=CHAPTER,
    title="The causal mask with a cache",
    task="The `q_len` queries are the last of `k_len` positions. Return the (q_len, k_len) "
    "boolean causal "
    "mask.",
    template=template_of("def causal_mask(q_len, k_len): ..."),
    hints=(
        "At which position does the first of the queries stand?",
        "At k_len − q_len. Compare positions, not row and column numbers.",
    ),
    reference=_lower,
    names=("q_len", "k_len"),
    kinds={
        "one new token": lambda rng: (1, 3),
        "a chunk": lambda rng: (3, 5),
        "no cache": lambda rng: (4, 4),
    },
    properties=(
        Property(
            "Each query sees one key more than the one before",
            lambda f, q, k: (np.arange(k - q + 1, k + 1), np.asarray(f(q, k), float).sum(-1)),
        ),
    ),
    misconceptions=(
        Misconception(
            "offset of the wrong sign",
            "The diagonal was moved the wrong way: the queries stand at the end, not before the "
            "beginning.",
            lambda q, k: np.tril(np.ones((q, k), bool), k=q - k),
            "huggingface/transformers#41228",
        ),
        Misconception(
            "everything visible",
            "For one new token all keys may be seen, but within a chunk the mask is still causal.",
            lambda q, k: np.ones((q, k), bool),
            "open-lm-engine/lm-engine#498",
        ),
        Misconception(
            "new tokens do not see themselves",
            "Each new token must see its own key as well: ≤, not <.",
            lambda q, k: np.arange(k) < np.arange(q)[:, None] + k - q,
        ),
        Misconception(
            "the cache forgotten",
            "Your mask counts the queries from position 0; with a cache they are the last ones.",
            lambda q, k: np.tril(np.ones((q, k), bool)),
        ),
    ),
)

EXERCISES = (CAUSAL_MASK, WITH_CACHE)
