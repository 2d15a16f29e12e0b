r"""From symbols to ids and back.

A model sees integers. Ids 0, 1 and 2 are the same in every vocabulary of the book:
``PAD`` fills short sequences of a batch, ``BOS`` opens a target, ``EOS`` closes it.

`vocabulary` gives every symbol an id; `bpe` learns pieces of words from a text, which `words`
has split.
"""

from .bpe import ByteBPE
from .vocabulary import BOS, EOS, PAD, SPECIAL, Vocabulary
from .words import split

__all__ = ["BOS", "EOS", "PAD", "SPECIAL", "ByteBPE", "Vocabulary", "split"]
