"""Machine-made changes of right answers that change nothing, each with the reason.

Exercise -> change -> why the changed answer is still right.
"""

AXIS = "axis 1 of a matrix is its last axis"
ARG = "a tuple of one: its first part is its last"
SYM = "the matrix is symmetric, so rows and columns are the same"
ROUND = "rounding to one digit more or less lies inside the tolerance"
DIMS = "one loop more or less over leading axes comes to the same rows"
FAR = "a billion more or less is as far below every score"
GUARD = "a guard against rounding that none of these sums needs"
FILLED = "every entry is written afterwards"
TIES = "only the order among equals, which is free"
GUESS = "any negative size asks NumPy to find it"
LAST = "a row of logits has one axis only"

SURVIVORS: dict[str, dict[str, str]] = {
    "positions.sinusoidal_odd": {
        "0: line 4:9-17, another function: np.zeros -> np.ones": FILLED,
        "2: line 4:60-61, constant: 1 -> 2": GUESS,
    },
    "attention.scale": {
        "0: line 3:16-17, constant: 2 -> 3": DIMS,
    },
    "softmax.stable": {
        "0: line 4:25-27, sign: -1 -> +1": AXIS,
        "0: line 3:25-27, sign: -1 -> +1": AXIS,
        "1: line 3:31-33, sign: -1 -> +1": AXIS,
    },
    "softmax.backward": {
        "0: line 3:21-54, factors exchanged: (np.diag(a) - np.out -> b @ (np.diag(a) - np": SYM,
        "1: line 4:62-63, constant: 0 -> -1": ARG,
        "1: line 4:48-50, sign: -1 -> +1": AXIS,
    },
    "symbolic.softmax_jacobian": {
        "1: line 4:58-81, arguments exchanged: sp.KroneckerDelta(i, -> sp.KroneckerDelta(j,": SYM,
    },
    "attention.query_gradient": {
        "0: line 4:45-46, constant: 0 -> -1": ARG,
        "1: line 9:27-29, constant: 12 -> 13": ROUND,
        "1: line 9:27-29, constant: 12 -> 11": ROUND,
        "2: line 5:20-73, factors exchanged: row @ (np.diag(weigh -> (np.diag(weights) - ": SYM,
        "2: line 6:48-50, sign: -1 -> +1": AXIS,
        "2: line 2:42-44, sign: -1 -> +1": AXIS,
        "3: line 3:28-30, sign: -1 -> +1": AXIS,
        "3: line 4:45-47, sign: -1 -> +1": AXIS,
        "3: line 2:42-44, sign: -1 -> +1": AXIS,
    },
    "attention.pull": {
        "2: line 2:66-67, constant: 1 -> 0": SYM,
    },
    "mask.padding": {
        "0: line 3:64-65, constant: 1 -> 2": GUESS,
    },
    "mask.half": {
        "0: line 3:57-60, constant: 1000000000.0 -> 1000000001.0": FAR,
        "0: line 3:57-60, constant: 1000000000.0 -> 999999999.0": FAR,
        "3: line 4:36-38, sign: -1 -> +1": AXIS,
    },
    "mask.empty_rows": {
        "0: line 4:14-16, sign: -1 -> +1": AXIS,
        "0: line 3:25-27, sign: -1 -> +1": AXIS,
    },
    "decoding.temperature": {
        "3: line 5:32-33, constant: 1 -> 0": LAST,
    },
    "decoding.top_k": {
        "0: line 5:66-68, sign: -1 -> +1": AXIS,
        "0: line 4:26-28, sign: -1 -> +1": AXIS,
        "0: line 5:61-63, sign: -1 -> +1": AXIS,
    },
    "decoding.top_p": {
        "0: line 4:14-46, comparison: np.cumsum(q[order])  -> np.cumsum(q[order]) ": GUARD,
        "0: line 4:37-46, term dropped: p - 1e-12 -> p * 1": GUARD,
        "1: line 5:11-28, comparison: mass >= p - 1e-12 -> mass > p - 1e-12": GUARD,
        "1: line 5:19-28, term dropped: p - 1e-12 -> p * 1": GUARD,
        "2: line 3:24-33, another function: np.arange -> np.zeros": TIES,
        "2: line 4:49-58, term dropped: p - 1e-12 -> p * 1": GUARD,
    },
}
