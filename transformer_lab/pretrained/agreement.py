r"""Does cross-attention look where the letters of a phone stand?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..data import Alignment
from ..metrics import alignment_agreement
from .pronouncer import Pronouncer


def agreement(
    speaker: Pronouncer,
    alignments: Sequence[Alignment],
    advance: Callable[[int, int], None] | None = None,
) -> dict[str, object]:
    """How often the most-watched letter of a phone is one that says it, by head.

    The model is made to say each word as the alignment has it. Shares between 0 and 1 (see
    :func:`~transformer_lab.metrics.alignment_agreement`): ``heads[layer][head]``, ``mean``
    (the mean of the weights of all heads), and ``diagonal``, which looks at no model: phone t
    of T (from 0) at letter ⌊(t + ½) S / T⌋ of S. Also the number of ``words`` and of ``phones``.
    """
    if not alignments:
        raise ValueError("Agreement needs at least one alignment, but there is none; give some.")
    layers, heads = len(speaker.model.decoder), speaker.model.config.h
    agree_LH, mean, diagonal, phones = np.zeros((layers, heads), dtype=int), 0, 0, 0
    for done, gold in enumerate(alignments, start=1):
        maps_LHTS = speaker.explain(gold.word, gold.phones).cross_LHTS[:, :, :-1]
        T, S = maps_LHTS.shape[2:]
        for layer in range(layers):
            for head in range(heads):
                rows = maps_LHTS[layer, head].tolist()
                agree_LH[layer, head] += alignment_agreement(rows, gold.groups)[0]
        agree, count = alignment_agreement(maps_LHTS.mean((0, 1)).tolist(), gold.groups)
        mean, phones = mean + agree, phones + count
        straight_TS = np.eye(S)[((np.arange(T) + 0.5) * S / T).astype(int)]
        diagonal += alignment_agreement(straight_TS.tolist(), gold.groups)[0]
        if advance is not None:
            advance(done, len(alignments))
    return {
        "words": len(alignments),
        "phones": phones,
        "diagonal": diagonal / phones,
        "heads": (agree_LH / phones).tolist(),
        "mean": mean / phones,
    }
