r"""Guesses to commit to at the bench of scaled dot-product attention."""

from __future__ import annotations

from .guess import GuessExercise

CHAPTER = "04-scaled-dot-product-attention"

EXERCISES = (
    GuessExercise(
        id="guess.spread",
        chapter=CHAPTER,
        title="How far scores spread at width 1024",
        task="Queries and keys have 1024 independent entries of mean 0 and variance 1. What is the "
        "*standard deviation* of q·k?",
        ratio=1.2,
        why="The variance is the width, so the standard deviation is its root.",
        label="eq-score-variance",
    ),
    GuessExercise(
        id="guess.mean_one",
        chapter=CHAPTER,
        title="The variance of a score when entries have mean 1",
        task="Now every entry has mean 1; variance 1 and independence stay. What becomes of the "
        "variance "
        "of q·k?",
        choices=("it stays d_k", "2 d_k", "3 d_k", "d_k + d_k²"),
        right=3,
        why="Each product then has variance 1 + 1 + 1: the entries' own, and each mean times the "
        "other's variance.",
        label="eq-score-variance-mean-one",
    ),
    GuessExercise(
        id="guess.correlated",
        chapter=CHAPTER,
        title="Wider heads with correlated entries",
        task="Any two entries of a query have correlation 0.3, and so have any two of a key. "
        "The width grows "
        "from 64 to 1024, by 16. By what factor does the variance of q·k grow?",
        ratio=1.5,
        why="Correlated entries do not cancel: for large widths the variance grows like the square "
        "of the width, so towards a factor 256.",
        label="eq-score-variance-correlated",
    ),
    GuessExercise(
        id="guess.largest_weight",
        chapter=CHAPTER,
        title="The winner's share without the division",
        task="64 keys, width 64, standard normal entries, and *no* division. What share does "
        "the largest "
        "weight of a row have, on average?",
        tolerance=0.1,
        why="At width 64 scores have a standard deviation of 8; the best of 64 stands far above "
        "the "
        "second.",
        label="eq-score-variance",
    ),
    GuessExercise(
        id="guess.jacobian_norm",
        chapter=CHAPTER,
        title="The Jacobian without the division, at width 64",
        task="The same rows. Compared with dividing by the root, is the norm of the softmax's "
        "Jacobian "
        "without the division",
        choices=("much smaller", "about as large, even a little larger", "ten times as large"),
        right=2,
        why="At 64 the argument from vanishing gradients does not show: a row undecided between a "
        "few keys passes more gradient than an even one. Turn the width up.",
        label="eq-softmax-jacobian",
    ),
    GuessExercise(
        id="guess.winner",
        chapter=CHAPTER,
        title="Which key wins?",
        task="A query (1, 0) meets three keys. Which gets the largest weight?",
        choices=(
            "(1.5, 0): the same direction",
            "(2, 2): longer, at 45 degrees",
            "(0, 5): the longest, at a right angle",
        ),
        right=2,
        why="The scores are 1.5, 2 and 0 before the division. A dot product rewards length as well "
        "as direction.",
        label="eq-attention-weights",
    ),
    GuessExercise(
        id="guess.trained_heads",
        chapter=CHAPTER,
        title="Scores in trained heads",
        task="The derivation says d_k for the variance of q·k. In what share of the trained "
        "heads that come "
        "with this book is it more than twice that? (0 to 1)",
        tolerance=0.15,
        why="Training makes entries larger and correlated; the division holds for the start only.",
        label="eq-score-variance-covariance",
    ),
    GuessExercise(
        id="guess.divided_by_width",
        chapter=CHAPTER,
        title="A trained model divided by the width",
        task="Take the language model as it was trained, and divide its scores by d_k instead of "
        "the root. By what factor does its held-out loss grow? (1: not at all)",
        ratio=1.2,
        why="Its heads have found their own scale; divided once more by the root, they look nearly "
        "everywhere at once.",
        label="eq-score-variance-scaled",
    ),
)
