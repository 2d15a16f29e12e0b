r"""An n-gram model of characters: what a language model must beat.

Interpolated, modified Kneser-Ney smoothing. With h the last n - 1 characters and h' the same
without its first,

    p_n(w | h) = (max(c(h w) - D(c(h w)), 0) + sum_i D_i N_i(h) p_(n-1)(w | h')) / c(h)

c(h w) counts how often a sequence occurs, c(h) is its sum over all w; D(c) is 0, D_1, D_2 or D_3
for c = 0, 1, 2, > 2; N_i(h) is how many w have c(h w) = 1 (i = 1), 2 (i = 2), > 2 (i = 3).
Below the highest order c does not count occurrences but in how many different contexts a sequence
occurs: how many different characters stand before it. Where h has never been seen, h' decides
alone; below p_1 everything is equally likely. The discounts of an order, with n_r the number of
sequences counted r times there:

    Y = n_1 / (n_1 + 2 n_2),   D_r = r - (r + 1) Y n_(r+1) / n_r    for r = 1, 2, 3

Sources: Kneser and Ney 1995; S. F. Chen and J. Goodman, "An empirical study of smoothing
techniques for language modeling", Computer Speech and Language 13 (1999), section 3.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

Discounts = tuple[float, float, float]
Following = dict[str, dict[str, int]]
"""For each context, what followed it and how often it counts."""


class KneserNey:
    """A character model of a fixed `order`: it looks at the last `order` - 1 characters.

    `symbols` are all the characters that may occur, each once. Raises ValueError for an order
    below 1 or no symbols, and for symbols that are no single characters or stand twice.
    """

    def __init__(self, symbols: Sequence[str], order: int = 5) -> None:
        if order < 1:
            raise ValueError(
                f"The order of an n-gram model must be at least 1, but got {order}; at 1 "
                "it only counts characters."
            )
        if not symbols:
            raise ValueError(
                "An n-gram model needs at least one symbol, but got none; name all that may occur."
            )
        for symbol, count in Counter(symbols).items():
            if len(symbol) != 1 or count > 1:
                raise ValueError(
                    f"Symbols must be single characters, each named once, but {symbol!r} has "
                    f"{len(symbol)} characters and is named {count} times; mend the list."
                )
        self.symbols, self.order = tuple(symbols), order
        self.following: list[Following] = []
        self.discounts: list[Discounts] = []

    def fit(self, text: str) -> KneserNey:
        """Count `text`; returns itself. Raises ValueError for an empty text or unknown symbols."""
        if not text:
            raise ValueError(
                "A text to count needs at least one character, but it is empty; give a longer one."
            )
        self._demand_known(text)
        counts = [_ngrams(text, n) for n in range(1, self.order + 1)]
        for n in range(self.order - 1):
            counts[n] = _contexts(counts[n + 1], counts[n])
        self.following = [_by_context(c) for c in counts]
        self.discounts = [discounts(c.values()) for c in counts]
        return self

    def probability(self, symbol: str, before: str) -> float:
        """p(symbol | before); of `before` only the last `order` - 1 characters count.

        Positive, and its sum over `symbols` is 1, whatever stands before. Raises ValueError
        before `fit` and for an unknown symbol.
        """
        if not self.following:
            raise ValueError("This KneserNey has counted no text yet: call fit(text) first.")
        if symbol not in self.symbols:
            self._demand_known(symbol)
        p = 1 / len(self.symbols)
        longest = min(self.order - 1, len(before))
        for n in range(longest + 1):
            seen = self.following[n].get(before[len(before) - n :])
            if seen is None:  # the longer contexts have not been seen either
                break
            d = self.discounts[n]
            total, given = sum(seen.values()), sum(d[min(c, 3) - 1] for c in seen.values())
            count = seen.get(symbol, 0)
            kept = count - d[min(count, 3) - 1] if count else 0.0
            p = (kept + given * p) / total
        return p

    def nats(self, text: str) -> float:
        r"""Mean of -ln p over the characters of `text`, each with those of `text` before it.

        The first `order` - 1 characters have shorter contexts. Raises ValueError for an empty
        text or a symbol that is not among `symbols`.
        """
        if not text:
            raise ValueError(
                "A text to judge needs at least one character, but it is empty; give a longer one."
            )
        self._demand_known(text)
        reach = self.order - 1
        ngrams = Counter((text[max(0, i - reach) : i], symbol) for i, symbol in enumerate(text))
        return -sum(
            n * math.log(self.probability(symbol, before)) for (before, symbol), n in ngrams.items()
        ) / len(text)

    def _demand_known(self, text: str) -> None:
        unknown = sorted(set(text) - set(self.symbols))
        if unknown:
            raise ValueError(
                f"A text may hold only the {len(self.symbols)} symbols of the model, but "
                f"{', '.join(map(repr, unknown[:5]))} "
                f"{'is' if len(unknown) == 1 else 'are'} not among them; name all symbols."
            )


def _ngrams(text: str, n: int) -> Counter[str]:
    """How often each sequence of n characters occurs."""
    return Counter(text[i : i + n] for i in range(len(text) - n + 1))


def _contexts(longer: Counter[str], own: Counter[str]) -> Counter[str]:
    """How many different characters stand before each sequence.

    The sequence at the very beginning of the text has nothing before it there. If it stands
    nowhere else, it counts once, so that nothing that occurs is counted as never seen.
    """
    counts = Counter(sequence[1:] for sequence in longer)
    counts.update(dict.fromkeys(own.keys() - counts.keys(), 1))
    return counts


def _by_context(counts: Counter[str]) -> Following:
    following: Following = {}
    for sequence, count in counts.items():
        following.setdefault(sequence[:-1], {})[sequence[-1]] = count
    return following


def discounts(counts: Iterable[int]) -> Discounts:
    """D_1, D_2, D_3 of one order from its counts.

    Where the estimate is undefined or leaves 0 < D_r <= r (a text too small or too regular:
    no sequence seen once, or none twice …), D_r = 1/2 stands in for it. A discount of 0 would leave
    nothing for what has not been seen.
    """
    of = Counter(counts)
    n1, n2 = of[1], of[2]
    y = n1 / (n1 + 2 * n2) if n1 + n2 else 0.0
    found = []
    for r in (1, 2, 3):
        d = r - (r + 1) * y * of[r + 1] / of[r] if of[r] and y else -1.0
        found.append(d if 0 < d <= r else 0.5)
    return found[0], found[1], found[2]
