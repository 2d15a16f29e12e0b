"""Systems.

data parallelism, synchronised statistics, recomputation, counting parameters, FLOPs and bytes.

Part 2 of 2.
"""

import numpy as np
from bank import Exercise


def _flop_in(**kw):
    base = dict(layers=4, heads=8, head_width=16, context=256, vocab=1000, matrix_params=900_000)
    base.update(kw)
    return lambda rng: (base,)


def _flops(c):
    return 6 * c["matrix_params"] + 12 * c["layers"] * c["heads"] * c["head_width"] * c["context"]


flops = Exercise(
    "systems.training_flops",
    "FLOPs per token of one training step (forward and backward): 6 for each parameter of a "
    "matrix product "
    "(matrix_params: head included, embedding tables not) plus the two attention products over "
    "the full context, without "
    "the saving of the causal mask.",
    "def flops_per_token(config): ...",
    _flops,
    {
        "generic": _flop_in(),
        "one head": _flop_in(heads=1, head_width=128),
        "long context": _flop_in(context=8192),
    },
)


@flops.accept("forward times three")
def _(c):
    attention = 2 * 2 * c["context"] * c["heads"] * c["head_width"]
    return 3 * (2 * c["matrix_params"] + c["layers"] * attention)


@flops.reject(
    "forward only",
    "2 per parameter is the forward pass; the backward pass costs twice that.",
    "karpathy/nanoGPT#322 (explained there)",
)
def _(c):
    return 2 * c["matrix_params"] + 4 * c["layers"] * c["heads"] * c["head_width"] * c["context"]


@flops.reject(
    "attention left out",
    "6N leaves out the products with the keys and values, which grow with the context.",
)
def _(c):
    return 6 * c["matrix_params"]


@flops.reject(
    "one of the two attention products",
    "Both q k^T and the product with v cost 2*T*width: the factor is 12.",
    "pytorch/torchtitan#4366",
)
def _(c):
    return 6 * c["matrix_params"] + 6 * c["layers"] * c["heads"] * c["head_width"] * c["context"]


@flops.reject(
    "number of heads forgotten",
    "The attention term needs all heads: heads * head_width.",
    "mosaicml/llm-foundry#909 (asked there), NVIDIA-NeMo/RL#2736 (heads*head_width taken as the "
    "model width)",
)
def _(c):
    return 6 * c["matrix_params"] + 12 * c["layers"] * c["head_width"] * c["context"]


@flops.reject("multiply-adds counted as one", "A multiplication and an addition are two FLOPs.")
def _(c):
    return _flops(c) // 2


def _zero_in(stage, world=8):
    return lambda rng: (1_000_000, world, stage)


def _zero(n, world, stage):
    return n * (
        2 / (world if stage >= 3 else 1)
        + 2 / (world if stage >= 2 else 1)
        + 12 / (world if stage >= 1 else 1)
    )


zero = Exercise(
    "systems.zero_memory",
    "Bytes per process for n parameters with Adam in mixed precision: 2 (weights) + 2 "
    "(gradients) + 12 (float32 weights, "
    "two moments) each; ZeRO stage 1 shards the 12, stage 2 also the gradients, stage 3 also "
    "the weights.",
    "def bytes_per_process(n, world, stage): ...",
    _zero,
    {
        "stage 0": _zero_in(0),
        "stage 1": _zero_in(1),
        "stage 2": _zero_in(2),
        "stage 3": _zero_in(3),
        "one process": _zero_in(2, 1),
    },
)


@zero.accept("table")
def _(n, world, stage):
    kept, cut = [(16, 0), (4, 12), (2, 14), (0, 16)][stage]
    return kept * n + cut * n / world


@zero.reject(
    "everything sharded in every stage", "Each stage shards more; only stage 3 shards all."
)
def _(n, world, stage):
    return 16 * n / (world if stage else 1)


@zero.reject(
    "float32 weights forgotten",
    "The optimiser keeps float32 weights besides its two moments: 12 bytes, not 8.",
    "stanford-cs336/lectures#3, datawhalechina/llm-algo-leetcode#149 (the 4 bytes named there)",
)
def _(n, world, stage):
    return _zero(n, world, stage) - 4 * n / (world if stage >= 1 else 1)


@zero.reject(
    "only the moments sharded",
    "The float32 weights belong to the optimiser's state and are sharded with it.",
)
def _(n, world, stage):
    return _zero(n, world, stage) + (4 * n - 4 * n / world if stage else 0)


@zero.reject(
    "float32 gradients",
    "In mixed precision as described the gradients take 2 bytes.",
    "deepspeedai/DeepSpeed#6707 (16 or 32 bits, asked there)",
)
def _(n, world, stage):
    return _zero(n, world, stage) + 2 * n / (world if stage >= 2 else 1)


def _kvb(**kw):
    base = dict(layers=4, heads=8, kv_heads=2, head_width=16, batch=3, length=100, bytes=2)
    base.update(kw)
    return lambda rng: (base,)


kv_bytes = Exercise(
    "systems.kv_cache_bytes",
    "Bytes of the key-value cache of a model with grouped queries.",
    "def cache_bytes(config): ...",
    lambda c: (
        2 * c["layers"] * c["batch"] * c["length"] * c["kv_heads"] * c["head_width"] * c["bytes"]
    ),
    {"grouped": _kvb(), "as many key heads": _kvb(kv_heads=8), "one sequence": _kvb(batch=1)},
)


@kv_bytes.accept("size of the arrays")
def _(c):
    one = np.zeros(
        (c["batch"], c["kv_heads"], c["length"], c["head_width"]), np.dtype(f"V{c['bytes']}")
    )
    return sum(one.nbytes for _layer in range(c["layers"]) for _kind in ("keys", "values"))


@kv_bytes.accept("per token")
def _(c):
    per_token = (
        c["bytes"]
        * c["layers"]
        * (c["kv_heads"] * c["head_width"] + c["kv_heads"] * c["head_width"])
    )
    return per_token * c["length"] * c["batch"]


@kv_bytes.reject("keys only", "Keys and values are cached: a factor of 2 is missing.")
def _(c):
    return c["layers"] * c["batch"] * c["length"] * c["kv_heads"] * c["head_width"] * c["bytes"]


@kv_bytes.reject("query heads", "Only the key heads are cached; that is what grouping saves.")
def _(c):
    return 2 * c["layers"] * c["batch"] * c["length"] * c["heads"] * c["head_width"] * c["bytes"]


@kv_bytes.reject("one layer", "Every layer has a cache of its own.")
def _(c):
    return 2 * c["batch"] * c["length"] * c["kv_heads"] * c["head_width"] * c["bytes"]


@kv_bytes.reject("batch forgotten", "Every sequence of the batch has its own cache.")
def _(c):
    return 2 * c["layers"] * c["length"] * c["kv_heads"] * c["head_width"] * c["bytes"]


@kv_bytes.reject(
    "length squared",
    "The scores are not cached: the cache grows with the length, not with its square.",
)
def _(c):
    return 2 * c["layers"] * c["batch"] * c["length"] ** 2 * c["kv_heads"] * c["bytes"]


EXERCISES = [flops, zero, kv_bytes]
