r"""Guesses to commit to at the first bench: a model of pronunciation, and one that writes."""

from __future__ import annotations

from .guess import GuessExercise

CHAPTER = "00-a-transformer-at-work"

EXERCISES = (
    GuessExercise(
        id="guess.one_letter",
        chapter=CHAPTER,
        title="One letter changed",
        task="In *knight*, replace the *k* by every other letter in turn. For how many of the "
        "letters "
        "will the sound of the rest, `AY T`, stay what it is?",
        tolerance=4,
        unit="letters",
        why="The model reads spelling in context: -ight keeps its sound behind nearly any letter.",
    ),
    GuessExercise(
        id="guess.wider_beam",
        chapter=CHAPTER,
        title="A wider beam",
        task="A beam of width 1 is greedy. Going from width 1 to 10, what becomes of the word "
        "error rate?",
        choices=("it halves", "it falls a little, if at all", "it rises"),
        right=2,
        why="The most probable answer is mostly the greedy one; where it is not, it is not always "
        "the right one.",
    ),
    GuessExercise(
        id="guess.half_way",
        chapter=CHAPTER,
        title="Half of the way",
        task="After what share of its steps has the loss made half of its way down? (0 to 1)",
        tolerance=0.05,
        why="Most of what is easy to learn is learned at once; the rest takes nearly all the time.",
    ),
    GuessExercise(
        id="guess.surprise",
        chapter=CHAPTER,
        title="Where a writer is surprised",
        task="Which characters of a line will the model find hardest to foresee, on average?",
        choices=("the first letters of words", "letters inside words", "spaces and commas"),
        right=1,
        why="Once a word has begun, its spelling leaves little choice; where the next one begins, "
        "much is possible.",
    ),
)
