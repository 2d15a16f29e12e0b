"""Optimisers: Adam, AdamW, clipping, gradient accumulation, mixed precision, decay groups.

Part 3 of 3.
"""

import numpy as np
from bank import Exercise

_SHAPES = {
    "embed.weight": (11, 4),
    "head.weight": (11, 4),
    "block.attn.weight": (12, 4),
    "block.attn.bias": (12,),
    "block.norm.weight": (4,),
    "block.norm.bias": (4,),
    "block.gate": (4,),
    "final_norm.weight": (4,),
}


groups = Exercise(
    "optimisers.decay_groups",
    "Given {name: shape} and the tied pairs {alias: name}, return the sorted names that get "
    "weight decay: matrices "
    "(two or more axes) only, each tensor once, under its first name.",
    "def decayed(shapes, aliases): ...",
    lambda shapes, aliases: sorted(
        n for n, s in shapes.items() if len(s) >= 2 and n not in aliases
    ),
    {
        "tied head": lambda rng: (dict(_SHAPES), {"head.weight": "embed.weight"}),
        "untied": lambda rng: (dict(_SHAPES), {}),
    },
)


@groups.accept("by the number of axes")
def _(shapes, aliases):
    return sorted(set(n for n in shapes if np.ndim(np.zeros(shapes[n])) > 1) - set(aliases))


@groups.accept("loop")
def _(shapes, aliases):
    out = []
    for name in sorted(shapes):
        if len(shapes[name]) > 1 and aliases.get(name, name) == name:
            out.append(name)
    return out


@groups.reject(
    "by the name norm",
    "A vector with another name (here a gate) slips through: decide by the number of axes.",
    "ServiceNow/Fast-LLM#545 (scales and state parameters)",
)
def _(shapes, aliases):
    return sorted(n for n in shapes if "bias" not in n and "norm" not in n and n not in aliases)


@groups.reject("the others", "These are the ones without decay.")
def _(shapes, aliases):
    return sorted(n for n, s in shapes.items() if len(s) < 2)


EXERCISES = [groups]
