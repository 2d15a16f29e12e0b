r"""What a pronouncing network must beat: a model of letters in their context.

Two steps, both counted from the training pairs, no gradient anywhere.

1. *Alignment.* Each letter emits a chunk of 0, 1 or 2 phones, in order:

       log p(phones | word) = max over chunkings of sum_i log p(chunk_i | letter_i)

   The p are found by Viterbi EM: align every pair with the best p so far,
   count the chunks of each letter, take the relative frequencies, repeat.

2. *Rules.* A letter is pronounced as it mostly was in the longest context of
   letters around it that occurs in the training words: windows grow from the
   letter alone to five letters on either side. Where the longest context is
   new, the next shorter one decides (a back-off decision list).

Sources: the alignment as in A. W. Black, K. Lenzo, V. Pagel, "Issues in
building general letter to sound rules" (1998), with their epsilon and double
phones; there a decision tree takes the place of our list.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

Chunk = tuple[str, ...]
Pair = tuple[str, tuple[str, ...]]
Emissions = dict[str, dict[Chunk, float]]
Rules = dict[tuple[int, int], dict[str, Chunk]]

# (letters to the left, letters to the right); each window contains the one before
WINDOWS = ((0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 4), (4, 4), (4, 5), (5, 5))

LONGEST_CHUNK = 2
UNSEEN = -12.0  # log p of a phone that a letter never emitted so far
EDGE = "#"  # stands outside the word, on either side


class ContextModel:
    """Letters to phones by the longest known context; see the module's text.

    `emissions[letter][chunk]` is log p(chunk | letter); `rules[left, right]`
    maps a window of letters to the chunk of the letter in it.
    """

    def __init__(self, windows: Sequence[tuple[int, int]] = WINDOWS) -> None:
        self.windows = check_windows(windows)
        self.emissions: Emissions = {}
        self.rules: Rules = {}

    def fit(
        self, pairs: Sequence[Pair], rounds: int = 6, align_on: int = 30_000
    ) -> ContextModel:
        """Learn from `(word, phones)` pairs; returns itself.

        `rounds` of EM run on at most `align_on` pairs, evenly spread; the rules
        are counted on all. Pairs with more phones than two a letter are left
        out. Without a pair that fits, ValueError.
        """
        fitting = [(word, tuple(phones)) for word, phones in pairs if _fits(word, phones)]
        if not fitting:
            raise ValueError(
                f"None of the {len(pairs)} pairs can be aligned: a pair needs letters and at most "
                f"{LONGEST_CHUNK} phones a letter; give some that have."
            )
        self.emissions = fit_emissions(fitting[:: math.ceil(len(fitting) / align_on)], rounds)
        chunks = (best_chunks(word, phones, self.emissions) for word, phones in fitting)
        words = [word for word, _ in fitting]
        self.rules = fit_rules(words, chunks, self.windows)
        return self

    def align(self, word: str, phones: Sequence[str]) -> list[tuple[str, Chunk]]:
        """Which letter says what: `[("k", ()), ("n", ("N",)), ...]`.

        ValueError before `fit`, and where phones are more than two a letter.
        """
        self._demand_fit()
        if not _fits(word, phones):
            raise ValueError(
                f"A letter emits at most {LONGEST_CHUNK} phones, but {word!r} has {len(word)} "
                f"letters for {len(phones)} phones; give a shorter pronunciation."
            )
        return list(zip(word, best_chunks(word, tuple(phones), self.emissions), strict=True))

    def predict(self, word: str) -> tuple[str, ...]:
        """The pronunciation of a word; letters never seen say nothing."""
        self._demand_fit()
        return tuple(phone for chunk in apply_rules(word, self.rules) for phone in chunk)

    def _demand_fit(self) -> None:
        if not self.rules:
            raise ValueError("This ContextModel knows no rules yet: call fit(pairs) first.")


def check_windows(windows: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The windows as a tuple; ValueError unless they grow from (0, 0)."""
    windows = tuple(windows)
    steps = itertools.pairwise(windows)
    grow = all(a != b and a[0] <= b[0] and a[1] <= b[1] for a, b in steps)
    if windows[:1] != ((0, 0),) or not grow:
        raise ValueError(
            f"Windows must begin with (0, 0) and grow, each containing the one before; got "
            f"{windows}."
        )
    return windows


def _fits(word: str, phones: Sequence[str]) -> bool:
    return 0 < len(word) and len(phones) <= LONGEST_CHUNK * len(word)


# --------------------------------------------------------------------------
# 1. alignment
# --------------------------------------------------------------------------


def fit_emissions(pairs: Sequence[Pair], rounds: int) -> Emissions:
    """Viterbi EM: log p(chunk | letter) after `rounds` of align, count, divide."""
    emissions = _frequencies(_near_the_diagonal(pairs))
    for _ in range(rounds):
        counts: dict[str, Counter[Chunk]] = defaultdict(Counter)
        for word, phones in pairs:
            for letter, chunk in zip(word, best_chunks(word, phones, emissions), strict=True):
                counts[letter][chunk] += 1
        emissions = _frequencies(counts)
    return emissions


def _near_the_diagonal(pairs: Sequence[Pair]) -> dict[str, Counter[Chunk]]:
    """A first guess: a letter goes with what stands at about its place in the word.

    Double chunks count less, so that they win only where they are frequent.
    """
    counts: dict[str, Counter[Chunk]] = defaultdict(Counter)
    for word, phones in pairs:
        reach = 1 / max(len(word), len(phones))
        for i, letter in enumerate(word):
            place = (i + 0.5) / len(word)
            counts[letter][()] += 1
            for j in range(len(phones)):
                if abs(place - (j + 0.5) / len(phones)) < 1.5 * reach:
                    counts[letter][phones[j : j + 1]] += 1
                if j + 1 < len(phones) and abs(place - (j + 1) / len(phones)) < reach:
                    counts[letter][phones[j : j + 2]] += 0.3
    return counts


def _frequencies(counts: dict[str, Counter[Chunk]]) -> Emissions:
    return {
        letter: {chunk: math.log(n / chunks.total()) for chunk, n in chunks.items()}
        for letter, chunks in counts.items()
    }


def best_chunks(word: str, phones: tuple[str, ...], emissions: Emissions) -> list[Chunk]:
    r"""The likeliest chunking of the phones over the letters (Viterbi).

        best[i, j] = max over n in {0, 1, 2} of
                     best[i-1, j-n] + log p(phones[j-n:j] | word[i-1])

    `best[i, j]`: log-probability of the best way in which the first i letters
    emit the first j phones. Ties go to the shorter chunk.
    """
    best = [0.0] + [-math.inf] * len(phones)
    taken = []  # taken[i][j]: length of the chunk of letter i that ends at phone j
    for letter in word:
        log_p = emissions.get(letter, {}).get
        scores, lengths = [], []
        for j in range(len(phones) + 1):
            score, length = best[j] + log_p((), UNSEEN), 0
            if j >= 1:
                one = best[j - 1] + log_p(phones[j - 1 : j], UNSEEN)
                if one > score:
                    score, length = one, 1
            if j >= 2:
                two = best[j - 2] + log_p(phones[j - 2 : j], 2 * UNSEEN)
                if two > score:
                    score, length = two, 2
            scores.append(score)
            lengths.append(length)
        best = scores
        taken.append(lengths)
    chunks = []
    j = len(phones)
    for lengths in reversed(taken):
        chunks.append(phones[j - lengths[j] : j])
        j -= lengths[j]
    return chunks[::-1]


# --------------------------------------------------------------------------
# 2. rules
# --------------------------------------------------------------------------


def fit_rules(
    words: Sequence[str], chunks: Iterable[Sequence[Chunk]], windows: Sequence[tuple[int, int]]
) -> Rules:
    """For every window, the contexts that change what the shorter ones say.

    In each context the commonest chunk wins (see `_commonest` for ties). A
    context in which all letters agree is not looked at in longer windows:
    every longer one would say the same.
    """
    edge = EDGE * max(max(window) for window in windows)
    # what is not decided yet: (padded word, place of the letter, its chunk, the rule so far)
    open_cases: list[tuple[str, int, Chunk, Chunk | None]] = [
        (edge + word + edge, i, chunk, None)
        for word, its_chunks in zip(words, chunks, strict=True)
        for i, chunk in enumerate(its_chunks, start=len(edge))
    ]
    rules: Rules = {}
    for left, right in windows:
        counts: dict[str, Counter[Chunk]] = defaultdict(Counter)
        shorter: dict[str, Chunk | None] = {}
        for text, i, chunk, before in open_cases:
            context = text[i - left : i + right + 1]
            counts[context][chunk] += 1
            shorter[context] = before
        says = {
            context: _commonest(seen, shorter[context]) for context, seen in counts.items()
        }
        rules[left, right] = {
            context: chunk for context, chunk in says.items() if chunk != shorter[context]
        }
        still_open = []
        for text, i, chunk, _ in open_cases:
            context = text[i - left : i + right + 1]
            if len(counts[context]) > 1:
                still_open.append((text, i, chunk, says[context]))
        open_cases = still_open
    return rules


def _commonest(seen: Counter[Chunk], before: Chunk | None) -> Chunk:
    """The chunk seen most; in a tie what the shorter context said, then the alphabet."""
    return min(seen, key=lambda chunk: (-seen[chunk], chunk != before, chunk))


def apply_rules(word: str, rules: Rules) -> list[Chunk]:
    """The chunk of each letter, by the longest context that has a rule."""
    edge = EDGE * max(max(window) for window in rules)
    text = edge + word + edge
    longest_first = sorted(rules, key=sum, reverse=True)
    chunks = []
    for i in range(len(edge), len(edge) + len(word)):
        contexts = ((window, text[i - window[0] : i + window[1] + 1]) for window in longest_first)
        found = (rules[window][context] for window, context in contexts if context in rules[window])
        chunks.append(next(found, ()))
    return chunks
