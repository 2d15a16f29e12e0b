r"""How good a set of answers is: edit distance, word and phoneme error rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rapidfuzz.distance import Levenshtein

Phones = tuple[str, ...]


@dataclass(frozen=True)
class Scores:
    r"""Error rates over a set of words, as shares between 0 and 1 (PER may exceed 1).

    .. math::
        \mathrm{WER} = \frac{\#\{\text{words equal to no reference}\}}{\#\text{words}}, \qquad
        \mathrm{PER} = \frac{\sum_w \min_r d(\hat y_w, r)}{\sum_w |r_w^*|}

    d is the edit distance (insertions, deletions, substitutions cost 1), r runs over the
    references of word w, and r* is the closest of them (the first of the closest, if several).
    """

    words: int
    wrong: int
    edits: int
    phones: int

    @property
    def wer(self) -> float:
        """Word error rate."""
        return self.wrong / self.words

    @property
    def per(self) -> float:
        """Phoneme error rate; ``ValueError`` if no reference holds a phoneme."""
        if not self.phones:
            raise ValueError(
                f"A rate needs at least one phoneme in the references, but those of all "
                f"{self.words} words are empty; look at the data."
            )
        return self.edits / self.phones

    def figures(self) -> dict[str, int | float]:
        """Counts and both rates, by name."""
        return {**asdict(self), "wer": self.wer, "per": self.per}


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Least number of insertions, deletions and substitutions that turn ``a`` into ``b``."""
    return Levenshtein.distance(a, b)


def closest(answer: Phones, references: Sequence[Phones]) -> tuple[Phones, int]:
    """The reference nearest to ``answer`` and its edit distance; ties go to the first."""
    if not references:
        raise ValueError("A word needs at least one reference, but this one has none.")
    distances = [edit_distance(answer, r) for r in references]
    best = min(range(len(references)), key=distances.__getitem__)
    return references[best], distances[best]


def score(answers: Sequence[Phones], references: Sequence[Sequence[Phones]]) -> Scores:
    """Score one answer for each word against all its references.

    Raises ``ValueError`` if the two lists differ in length or are empty.
    """
    if len(answers) != len(references) or not answers:
        raise ValueError(
            f"There must be one answer for each word and at least one word, but there are "
            f"{len(answers)} answers and {len(references)} words."
        )
    wrong = edits = phones = 0
    for answer, known in zip(answers, references, strict=True):
        reference, distance = closest(tuple(answer), [tuple(r) for r in known])
        wrong += distance > 0
        edits += distance
        phones += len(reference)
    return Scores(len(answers), wrong, edits, phones)


def alignment_agreement(
    weights_TS: Sequence[Sequence[float]], groups: Sequence[Sequence[int]]
) -> tuple[int, int]:
    r"""On how many phones does the most-watched letter belong to those that say the phone?

    .. math:: \#\{t : \arg\max_s A_{ts} \in G_t\} \quad\text{of}\quad \#\{t : G_t \neq \emptyset\}

    A = ``weights_TS``: row t holds the weights over the S letters used to predict phone t (the
    first letter wins a tie). G_t = ``groups[t]``: places of the letters that say phone t in a
    gold alignment; phones without one are not counted. Returns both counts, so that they can
    be summed over words. Raises ``ValueError`` if rows and groups differ in number.
    """
    if len(weights_TS) != len(groups):
        raise ValueError(
            f"There must be one row of weights for each phone of the alignment, but there are "
            f"{len(weights_TS)} rows and {len(groups)} phones; leave out the row of the end."
        )
    agree = count = 0
    for row_S, group in zip(weights_TS, groups, strict=True):
        if not group:
            continue
        count += 1
        watched = max(range(len(row_S)), key=row_S.__getitem__)
        agree += watched in group
    return agree, count
