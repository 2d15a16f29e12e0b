r"""The optimiser, and which numbers decay."""

from __future__ import annotations

import torch
from torch import nn

POSITIONS = "positions.table_nD"
"""How the names of learned position tables end."""


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Matrices decay; vectors (biases, norms) and embeddings of positions do not.

    Every parameter is in exactly one group.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    decaying = {n for n, p in trained.items() if p.ndim >= 2 and not n.endswith(POSITIONS)}
    decay = [trained[name] for name in trained if name in decaying]
    keep = [trained[name] for name in trained if name not in decaying]
    assert len(decay) + len(keep) == len(trained)
    return [
        {"params": decay, "weight_decay": weight_decay},
        {"params": keep, "weight_decay": 0.0},
    ]


def adamw(
    model: nn.Module, lr: float, betas: tuple[float, float], weight_decay: float
) -> torch.optim.AdamW:
    r"""AdamW over :func:`parameter_groups`, by torch's fused kernel.

    .. math::
        m &= \beta_1 m + (1 - \beta_1) g, \qquad v = \beta_2 v + (1 - \beta_2) g^2 \\
        \theta &= (1 - \eta \lambda)\,\theta
            - \eta\, \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \varepsilon}

    θ a parameter, g its gradient, t the step from 1, η the rate, λ the decay, ε = 1e-9.
    Source: Loshchilov and Hutter 2019; β₂ and ε as in Vaswani et al. 2017.
    """
    groups = parameter_groups(model, weight_decay)
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=1e-9, fused=True)
