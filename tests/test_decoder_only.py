"""The decoder-only model: cached, padded, continued; always as if each text were read whole."""

import pytest
import torch
from helpers import B, T, targets
from lm_cases import SIZE, tiny_decoder


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("pieces", [[1] * 13, [5, 1, 7], [13]])
def test_a_decoder_only_model_step_by_step_is_all_at_once(norm, positions, pieces):
    ours, text = tiny_decoder(norm=norm, positions=positions), targets(B, T, SIZE)
    state = ours.start()
    parts = [ours.step(part, state) for part in text.split(pieces, 1)]
    torch.testing.assert_close(torch.cat(parts, 1), ours(text), atol=1e-12, rtol=0)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_padding_on_the_left_changes_nothing(positions):
    """Rows of unequal length in one batch, in two steps: each as if it were alone."""
    ours, text = tiny_decoder(positions=positions), targets(B, T, SIZE)
    padding = torch.tensor([(3 * b) % 7 for b in range(B)])
    left = torch.where(torch.arange(T) < padding[:, None], 0, text)
    state = ours.start(padding)
    together = torch.cat([ours.step(part, state) for part in left.split([8, 5], 1)], 1)
    for b, gap in enumerate(padding.tolist()):
        alone = ours(text[b : b + 1, gap:])[0]
        torch.testing.assert_close(together[b, gap:], alone, atol=1e-12, rtol=0)


@pytest.mark.plain
def test_a_text_longer_than_the_model_is_refused_at_the_step_it_happens():
    ours = tiny_decoder()
    state = ours.start()
    ours.step(targets(2, 18, SIZE), state)
    with pytest.raises(ValueError, match=r"text may hold at most 19 tokens, but this one holds 21"):
        ours.step(targets(2, 3, SIZE), state)
