"""Mistakes that the package calls by another name than the bank: (exercise, bank) -> package."""

CALLED = {
    ("attention.scale", "divides by d instead of its square root"): (
        "dividing by d instead of its square root"
    ),
    ("attention.scale", "scales by the number of keys"): "scaling by the number of keys",
    ("attention.scale", "multiplies by sqrt(d)"): "multiplying by sqrt(d)",
    ("attention.softmax_axis", "normalises over the queries"): "normalising over the queries",
    ("attention.softmax_axis", "normalises over the batch (dim=0)"): (
        "normalising over the batch (dim=0)"
    ),
    ("softmax.stable", "maximum without keepdims"): "the maximum without its axis",
    ("softmax.stable", "maximum not below 0"): "a maximum that is never below 0",
    ("softmax.stable", "clips the logits"): "clipping the scores",
    ("softmax.backward", "dot product missing"): "the average left out",
    ("softmax.backward", "plain sum instead of the weighted one"): (
        "a plain sum instead of the weighted one"
    ),
    ("softmax.backward", "sum over the batch"): "the sum over the rows",
    ("symbolic.softmax_jacobian", "diagonal only"): "the diagonal only",
    ("symbolic.softmax_jacobian", "s_i (1 - s_j) everywhere"): "s_i (1 − s_j) everywhere",
    ("symbolic.softmax_jacobian", "sign turned"): "the sign turned",
    ("symbolic.softmax_jacobian", "denominator taken as a constant"): (
        "the denominator taken for a constant"
    ),
    ("symbolic.score_variance", "variance instead of standard deviation"): (
        "the variance instead of the standard deviation"
    ),
    ("symbolic.score_variance", "variance of one product"): "the spread of one product",
    ("symbolic.score_variance", "inverse"): "the inverse",
}
