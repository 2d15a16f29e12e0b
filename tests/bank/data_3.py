"""Data and scores of text: windows, byte-pair merges, shards, BLEU, error rates. Part 3 of 3."""

import itertools

import numpy as np
from bank import Exercise


def _edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (x != y))
    return row[-1]


def _asr(lengths, extra=0, words=6):
    def make(rng):
        refs, hyps = [], []
        for n in lengths:
            r = [int(w) for w in rng.integers(0, words, size=n)]
            h = list(r)
            h[int(rng.integers(n))] = 99
            if n > 2:
                del h[int(rng.integers(len(h)))]
            h[:0] = [98] * extra
            refs.append(r)
            hyps.append(h)
        return refs, hyps

    return make


def _moved(rng):
    a, b = ([int(w) for w in rng.permutation(20)[:n]] for n in (4, 6))
    return [a, b], [a + b[:1], b[1:]]


error_rate = Exercise(
    "data.error_rate",
    "Word (or phone) error rate of a corpus: all insertions, deletions and substitutions over "
    "all words of the "
    "references.",
    "def error_rate(references, hypotheses): ...",
    lambda refs, hyps: sum(_edits(r, h) for r, h in zip(refs, hyps)) / sum(map(len, refs)),
    {
        "uneven lengths": _asr([2, 9, 5]),
        "even lengths": _asr([6, 6]),
        "one": _asr([7]),
        "many insertions": _asr([3, 4], 6),
        "word moved to the sentence before": _moved,
    },
)


@error_rate.accept("full distance matrix")
def _(refs, hyps):
    wrong = 0
    for r, h in zip(refs, hyps):
        d = np.zeros((len(r) + 1, len(h) + 1), int)
        d[:, 0], d[0] = np.arange(len(r) + 1), np.arange(len(h) + 1)
        for i in range(len(r)):
            for j in range(len(h)):
                d[i + 1, j + 1] = min(d[i, j + 1] + 1, d[i + 1, j] + 1, d[i, j] + int(r[i] != h[j]))
        wrong += d[-1, -1]
    return wrong / sum(len(r) for r in refs)


@error_rate.accept("length-weighted mean of the rates")
def _(refs, hyps):
    return np.average(
        [_edits(h, r) / len(r) for r, h in zip(refs, hyps)], weights=[len(r) for r in refs]
    )


@error_rate.reject(
    "mean of the sentences' rates",
    "A short sentence weighs as much as a long one: sum the errors, divide once.",
    "SeanNaren/deepspeech.pytorch#265, jitsi/jiwer#59, mozilla/DeepSpeech#1046, "
    "BytedanceSpeech/seed-tts-eval#13",
)
def _(refs, hyps):
    return np.mean([_edits(r, h) / len(r) for r, h in zip(refs, hyps)])


@error_rate.reject(
    "divided by the number of sentences",
    "Divide by the number of reference words.",
    "espnet/espnet#678 (review: len for sum)",
)
def _(refs, hyps):
    return sum(_edits(r, h) for r, h in zip(refs, hyps)) / len(refs)


@error_rate.reject(
    "divided by the longer of the two", "Not the longer of the two counts, but the reference."
)
def _(refs, hyps):
    return sum(_edits(r, h) for r, h in zip(refs, hyps)) / sum(
        max(len(r), len(h)) for r, h in zip(refs, hyps)
    )


@error_rate.reject(
    "place by place",
    "After one deletion everything is shifted and counted as wrong: align first (edit distance).",
)
def _(refs, hyps):
    return sum(
        sum(a != b for a, b in itertools.zip_longest(r, h)) for r, h in zip(refs, hyps)
    ) / sum(map(len, refs))


@error_rate.reject(
    "substitutions cost 2",
    "A substitution is one error, not a deletion and an insertion.",
    "jitsi/jiwer#80 (asked there)",
)
def _(refs, hyps):
    def two(a, b):
        row = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            prev, row[0] = row[0], i
            for j, y in enumerate(b, 1):
                prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + 2 * (x != y))
        return row[-1]

    return sum(two(r, h) for r, h in zip(refs, hyps)) / sum(map(len, refs))


EXERCISES = [error_rate]
