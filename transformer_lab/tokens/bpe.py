r"""Byte-level byte-pair encoding: pieces of words, learned from a text.

Every text is a sequence of bytes (UTF-8), so 256 tokens can write all of them. Learning joins
the two neighbouring tokens that occur together most often to a new token, again and again; a
frequent word ends as one token, a rare one as several. Words are kept apart: a text is first
split by GPT-2's pattern, and no token reaches across a split.

Sources: Sennrich, Haddow and Birch 2016 (pairs of characters inside words); Radford et al. 2019
(GPT-2: bytes, and the split).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise

from .vocabulary import EOS, PAD, SPECIAL
from .words import split

Pair = tuple[int, int]
"""Ids of two tokens that stand side by side."""

LEAST = 2
"""A pair that occurs less often is not joined: a token used once saves nothing."""

_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
_BYTES = bytes([*_PRINTED, *(b for b in range(256) if b not in _PRINTED)])
_SIGNS = "".join(map(chr, [*_PRINTED, *range(256, 512 - len(_PRINTED))]))
"""How GPT-2 writes each byte as one visible character; a space becomes Ġ, a line end Ċ."""

_SIGN_OF = dict(zip(_BYTES, _SIGNS, strict=True))
_BYTE_OF = dict(zip(_SIGNS, _BYTES, strict=True))
_ID_OF = {b: i for i, b in enumerate(_BYTES, start=len(SPECIAL))}


@dataclass(frozen=True)
class ByteBPE:
    r"""Byte-pair encoding of UTF-8: any text to ids and back.

    ``merges`` are the learned rules in their order, written as GPT-2 writes them: two tokens
    with a space between, each byte as one visible character ("Ġ t" joins a space and a t). They
    are all there is to save. Ids 0, 1, 2 are the special ones, 3 … 258 the bytes (first those
    that print, as in GPT-2), then each merge makes the next one, unless its bytes are those of
    a token that is there already.

    Raises ``ValueError`` if a merge is not of that form, joins what no rule before it has made,
    or stands twice.
    """

    merges: tuple[str, ...]
    _tokens: list[bytes] = field(init=False, repr=False, compare=False)
    _rules: dict[Pair, tuple[int, int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tokens, ids = _bytes_only()
        rules: dict[Pair, tuple[int, int]] = {}
        for rank, merge in enumerate(self.merges):
            pair = _read(merge, rank, ids)
            if pair in rules:
                raise ValueError(
                    f"Merges must differ, but {merge!r} stands at {rules[pair][0]} and at {rank}; "
                    f"remove one."
                )
            rules[pair] = rank, _add(tokens[pair[0]] + tokens[pair[1]], tokens, ids)
        object.__setattr__(self, "_tokens", tokens)
        object.__setattr__(self, "_rules", rules)

    @classmethod
    def train(cls, text: str, size: int) -> ByteBPE:
        r"""Learn merges from ``text`` until there are ``size`` tokens, special ones included.

        .. math:: (a, b) = \arg\max_{(x, y)} c(x, y)

        c counts how often x stands directly before y inside the parts of the text (see
        :func:`split`); of pairs with the same count the one with the smaller first id is taken,
        then the one with the smaller second id. The pair becomes one token everywhere (from the
        left, where it overlaps itself), and the next is sought. Learning ends early when no pair
        occurs twice. Each different part is looked at once, with how often it occurs, and counts
        are mended only where a merge changes them.

        Raises ``ValueError`` for an empty text or one with lone surrogates, or a size below 259.
        """
        least = len(SPECIAL) + 256
        if size < least:
            raise ValueError(
                f"A vocabulary of bytes holds at least {least} tokens (256 bytes, "
                f"{len(SPECIAL)} special ones), but got size = {size}; 1024 is usual here."
            )
        if not text:
            raise ValueError("Merges are learned from a text, but it is empty; give a longer one.")
        tokens, ids = _bytes_only()
        parts = Counter(split(text))
        words = [[_ID_OF[b] for b in _utf8(part)] for part in parts]
        times = list(parts.values())

        counts: Counter[Pair] = Counter()
        where: defaultdict[Pair, set[int]] = defaultdict(set)
        for w, word in enumerate(words):
            for pair in pairwise(word):
                counts[pair] += times[w]
                where[pair].add(w)
        queue = [(-count, pair) for pair, count in counts.items()]
        heapify(queue)

        merges: dict[str, None] = {}  # in order, none twice
        while queue and len(tokens) < size:
            count, pair = heappop(queue)
            if -count != counts[pair]:  # it has become rarer since
                heappush(queue, (-counts[pair], pair))
                continue
            if counts[pair] < LEAST:
                break
            merges[f"{_written(tokens[pair[0]])} {_written(tokens[pair[1]])}"] = None
            new = _add(tokens[pair[0]] + tokens[pair[1]], tokens, ids)
            for now in _join_all(pair, new, words, times, counts, where):
                heappush(queue, (-counts[now], now))
        return cls(tuple(merges))

    def __len__(self) -> int:
        return len(self._tokens)

    def encode(self, text: str) -> list[int]:
        """Ids of a text; ``decode`` gives it back exactly.

        In each part of the text (see :func:`split`), the pair whose rule was learned first is
        joined, the leftmost if there are several, until no rule fits. Raises ``ValueError`` for
        lone surrogates, which UTF-8 cannot write.
        """
        known: dict[str, list[int]] = {}
        ids: list[int] = []
        for part in split(text):
            if part not in known:
                known[part] = self._join([_ID_OF[b] for b in _utf8(part)])
            ids += known[part]
        return ids

    def _join(self, ids: list[int]) -> list[int]:
        """Apply the rules to the bytes of one part.

        ``after`` and ``before`` link the tokens that are left; the queue holds rank, place and
        result of each rule that fits. An entry whose tokens have changed since is passed over.
        """
        rules, end = self._rules, len(ids)
        after, before = [*range(1, end + 1)], [*range(-1, end - 1)]
        fits = [(i, rules[pair]) for i, pair in enumerate(pairwise(ids)) if pair in rules]
        queue = [(rank, i, new) for i, (rank, new) in fits]
        heapify(queue)
        while queue:
            _, i, new = heappop(queue)
            j = after[i]
            if ids[i] == PAD or j == end or rules.get((ids[i], ids[j]), (0, PAD))[1] != new:
                continue
            ids[i], ids[j], after[i] = new, PAD, after[j]
            if after[i] < end:
                before[after[i]] = i
            for k in (before[i], i):
                if k >= 0 and after[k] < end and (rule := rules.get((ids[k], ids[after[k]]))):
                    heappush(queue, (rule[0], k, rule[1]))
        return [i for i in ids if i != PAD]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids`` up to the first ``EOS``; ``PAD`` and ``BOS`` are left out.

        Tokens may cut a character into bytes: what is no UTF-8 becomes U+FFFD, �, for instance
        a character of which only the first bytes are there. So decode a text as a whole, not
        in pieces. Raises ``ValueError`` for an id outside the vocabulary.
        """
        return b"".join(self._until_end(ids)).decode("utf-8", errors="replace")

    def _until_end(self, ids: Sequence[int]) -> Iterator[bytes]:
        for i in map(int, ids):
            if i == EOS:
                return
            yield self.bytes_of(i)

    def bytes_of(self, i: int) -> bytes:
        """The bytes of one token, none for the special ones; ``ValueError`` for an unknown id."""
        if not 0 <= i < len(self):
            raise ValueError(
                f"An id must lie between 0 and {len(self) - 1} (the vocabulary has {len(self)} "
                f"tokens), but got {i}; was it made with other merges?"
            )
        return self._tokens[i]

    def label(self, i: int) -> str:
        """A token as text, special ones included; bytes that are no whole characters in hex.

        Two learned tokens never have the same label: none mixes letters, digits and brackets,
        as "<pad>" and "<e2 80>" do.
        """
        if 0 <= i < len(SPECIAL):
            return SPECIAL[i]
        try:
            return self.bytes_of(i).decode("utf-8")
        except UnicodeDecodeError:
            return f"<{self.bytes_of(i).hex(' ')}>"


def _utf8(part: str) -> bytes:
    try:
        return part.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"A text must consist of characters that UTF-8 can write, but {part[error.start]!r} "
            f"is half of a surrogate pair; read the text with its right encoding."
        ) from None


def _bytes_only() -> tuple[list[bytes], dict[bytes, int]]:
    """The tokens before anything is learned, and their ids."""
    tokens = [b""] * len(SPECIAL) + [bytes([b]) for b in _BYTES]
    return tokens, {token: i for i, token in enumerate(tokens) if token}


def _written(token: bytes) -> str:
    return "".join(_SIGN_OF[b] for b in token)


def _read(merge: str, rank: int, ids: dict[bytes, int]) -> Pair:
    """The ids that a written merge joins."""
    parts = merge.split(" ") if isinstance(merge, str) else []
    found = [bytes(_BYTE_OF[s] for s in p) for p in parts if p and set(p) <= _BYTE_OF.keys()]
    if len(found) != 2 or len(parts) != 2 or not ids.keys() >= set(found):
        raise ValueError(
            f"A merge joins two tokens that are there before it, written with one space between "
            f"and each byte as GPT-2 writes it, but merge {rank} is {merge!r:.60}; restore the "
            f"list in its order, or learn the merges again."
        )
    return ids[found[0]], ids[found[1]]


def _add(token: bytes, tokens: list[bytes], ids: dict[bytes, int]) -> int:
    """The id of a token, the next one if it is new."""
    if token not in ids:
        ids[token] = len(tokens)
        tokens.append(token)
    return ids[token]


def _join_all(
    pair: Pair,
    new: int,
    words: list[list[int]],
    times: list[int],
    counts: Counter[Pair],
    where: defaultdict[Pair, set[int]],
) -> set[Pair]:
    """Put ``new`` for each ``pair``, from the left, in the words that have it.

    Mends the counts and where a pair may be found; returns the pairs that have come up.
    """
    arisen: set[Pair] = set()
    for w in where.pop(pair):
        old, joined, i = words[w], [], 0
        while i < len(old):
            here = tuple(old[i : i + 2]) == pair
            joined.append(new if here else old[i])
            i += 2 if here else 1
        for gone in pairwise(old):
            counts[gone] -= times[w]
        for now in pairwise(joined):
            counts[now] += times[w]
            if new in now:
                where[now].add(w)
                arisen.add(now)
        words[w] = joined
    return arisen
