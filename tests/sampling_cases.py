"""What the tests of truncations and of sampling share: logits, and a library to compare with."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import strategies as st

B, T, V = 5, 3, 11
HISTORY = torch.zeros(B, T, dtype=torch.long)
INF = float("inf")


def history(logits_BV):
    """A history for as many rows."""
    return torch.zeros(len(logits_BV), T, dtype=torch.long)


@st.composite
def logits(draw, values=None, dtype=torch.float64):
    """Rows of logits: with ties and −∞, at least one number in each row."""
    rows, symbols = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    numbers = values or st.one_of(st.floats(-30, 30, width=32), st.integers(-3, 3).map(float))
    row = st.lists(st.one_of(numbers, numbers, numbers, st.just(-INF)),
                   min_size=symbols, max_size=symbols)  # fmt: skip
    row = row.filter(lambda r: max(r) > -INF)
    return torch.tensor(draw(st.lists(row, min_size=rows, max_size=rows)), dtype=dtype)


def from_transformers():
    """The three processors of `transformers`; its import takes a second and no network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper
    return SimpleNamespace(
        temperature=TemperatureLogitsWarper, top_k=TopKLogitsWarper, top_p=TopPLogitsWarper
    )


def kept(logits_BV):
    """The ids that are left in each row."""
    return [[v for v, z in enumerate(row) if z > -INF] for row in logits_BV.tolist()]
