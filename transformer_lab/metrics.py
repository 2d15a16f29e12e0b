r"""How good a set of answers is: edit distance, word and phoneme error rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
