"""Words for the tests of the attention explorer, with random weights and odd sizes."""

import math

import numpy as np

from transformer_lab.plots.explorer import Case

L, H = 2, 3
END = "⟨end⟩"


def make_case(word="knight", said="N AY T", kind="silent letters", seed=0, **changes):
    """A case with random weights; rows: the phones and the end; columns: the letters."""
    greedy = tuple(said.split())
    rng = np.random.default_rng([seed, len(word)])
    T, S = len(greedy) + 1, len(word)
    fields = {
        "word": word,
        "kind": kind,
        "letters": tuple(word),
        "references": (greedy,),
        "greedy": greedy,
        "beam": ((greedy, math.log(0.61)), ((*greedy, "AH"), math.log(0.23))),
        "phones": (*greedy, END),
        "probabilities": rng.uniform(0.3, 1, T),
        "weights_LHTS": rng.dirichlet(np.full(S, 0.4), size=(L, H, T)),
    }
    return Case(**(fields | changes))


def sample():
    """Six words of four kinds; one wrong, one with two right answers, one in no dictionary."""
    return [
        make_case(),
        make_case("psalm", "S AA M", seed=1),
        make_case("nguyen", "N UW EH N", "names", 2, references=(("W", "IH", "N"),)),
        make_case("either", "IY DH ER", "two right answers", 3, references=(
            ("AY", "DH", "ER"), ("IY", "DH", "ER"))),
        make_case("blorptik", "B L AO R P T IH K", "names", 4, references=(), beam=()),
        make_case("characteristically", "K EH R AH K T ER IH S T IH K L IY", "long", 5),
    ]  # fmt: skip
