"""What the exercises on decoding share."""

import numpy as np


def _nucleus(q, p):
    order = np.argsort(-q, kind="stable")
    before = np.cumsum(q[order]) - q[order]
    out = np.zeros_like(q)
    keep = order[before < p - 1e-12]
    out[keep] = q[keep] / q[keep].sum()
    return out
