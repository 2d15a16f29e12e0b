"""Mutants that the verifier must accept, because they are equal to what they came from.

label -> {(step, operator, TeX of the mutant): why it is equal}; step 0 is the left side.
"""

SYMMETRIC = "a covariance is symmetric, so its two indices may change places"
ONE = "each of the n terms becomes 1/n, and the sum is 1 all the same"
J_SYMMETRIC = "the Jacobian of softmax is symmetric"
DIAGONAL = "diag of a row and diag of the same numbers in a column are one matrix"
RENAMED = "i and j run over the same range, so the two double sums are equal"
DELTA = "beside a delta of two indices either of them may stand"
ONLY_TERM = "the slope beside it is zero unless the two indices are equal"

SURVIVORS = {
    "eq-score-variance-covariance": {
        (
            4,
            "transpose",
            r"\sum_{l=1}^{d_{k}} \sum_{m=1}^{d_{k}} \left(\left(C^{q}_{ml} + \mu^{q}_{l} "
            r"\mu^{q}_{m}\right) \left(C^{k}_{lm} + \mu^{k}_{l} \mu^{k}_{m}\right) - "
            r"\mu^{q}_{l} \mu^{k}_{l} \mu^{q}_{m} \mu^{k}_{m}\right)",
        ): SYMMETRIC,
        (
            4,
            "transpose",
            r"\sum_{l=1}^{d_{k}} \sum_{m=1}^{d_{k}} \left(\left(C^{q}_{lm} + \mu^{q}_{l} "
            r"\mu^{q}_{m}\right) \left(C^{k}_{ml} + \mu^{k}_{l} \mu^{k}_{m}\right) - "
            r"\mu^{q}_{l} \mu^{k}_{l} \mu^{q}_{m} \mu^{k}_{m}\right)",
        ): SYMMETRIC,
        (
            5,
            "transpose",
            r"\sum_{l=1}^{d_{k}} \sum_{m=1}^{d_{k}} \left(C^{q}_{ml} C^{k}_{lm} + "
            r"\mu^{q}_{l} C^{k}_{lm} \mu^{q}_{m} + \mu^{k}_{l} C^{q}_{lm} "
            r"\mu^{k}_{m}\right)",
        ): SYMMETRIC,
        (
            5,
            "transpose",
            r"\sum_{l=1}^{d_{k}} \sum_{m=1}^{d_{k}} \left(C^{q}_{lm} C^{k}_{ml} + "
            r"\mu^{q}_{l} C^{k}_{lm} \mu^{q}_{m} + \mu^{k}_{l} C^{q}_{lm} "
            r"\mu^{k}_{m}\right)",
        ): SYMMETRIC,
        (
            5,
            "transpose",
            r"\sum_{l=1}^{d_{k}} \sum_{m=1}^{d_{k}} \left(C^{q}_{lm} C^{k}_{lm} + "
            r"\mu^{q}_{l} C^{k}_{ml} \mu^{q}_{m} + \mu^{k}_{l} C^{q}_{lm} "
            r"\mu^{k}_{m}\right)",
        ): SYMMETRIC,
        (
            5,
            "transpose",
            r"\sum_{l=1}^{d_{k}} \sum_{m=1}^{d_{k}} \left(C^{q}_{lm} C^{k}_{lm} + "
            r"\mu^{q}_{l} C^{k}_{lm} \mu^{q}_{m} + \mu^{k}_{l} C^{q}_{ml} "
            r"\mu^{k}_{m}\right)",
        ): SYMMETRIC,
    },
    "eq-softmax-sum": {
        (1, "index", r"\sum_{i=1}^{n} \frac{e^{z_{i}}}{\sum_{l=1}^{n} e^{z_{i}}}"): ONE,
    },
    "eq-softmax-jacobian": {
        (0, "transpose", r"J^{\top}"): J_SYMMETRIC,
        (
            2,
            "index",
            r"\frac{\delta_{ij} e^{z_{j}}}{\sum_{l=1}^{n} e^{z_{l}}} - \frac{e^{z_{i}} "
            r"e^{z_{j}}}{\left(\sum_{l=1}^{n} e^{z_{l}}\right)^{2}}",
        ): DELTA,
        (3, "index", r"\delta_{ij} a_{j} - a_{i} a_{j}"): DELTA,
        (4, "transpose", r"\operatorname{diag}(a^{\top}) - a^{\top} a"): DIAGONAL,
    },
    "eq-softmax-spread": {
        (0, "transpose", r"\sum_{i=1}^{n} \sum_{j=1}^{n} u_{i} J_{ji} u_{j}"): J_SYMMETRIC,
        (
            1,
            "index",
            r"\sum_{i=1}^{n} \sum_{j=1}^{n} u_{i} \left(\delta_{ij} a_{j} - a_{i} "
            r"a_{j}\right) u_{j}",
        ): DELTA,
        (
            3,
            "index",
            r"\frac{1}{2} \left(\sum_{i=1}^{n} \sum_{j=1}^{n} a_{i} a_{j} u_{j}^{2} + "
            r"\sum_{i=1}^{n} \sum_{j=1}^{n} a_{i} a_{j} u_{j}^{2}\right) - \sum_{i=1}^{n} "
            r"\sum_{j=1}^{n} a_{i} u_{i} a_{j} u_{j}",
        ): RENAMED,
        (
            3,
            "index",
            r"\frac{1}{2} \left(\sum_{i=1}^{n} \sum_{j=1}^{n} a_{i} a_{j} u_{i}^{2} + "
            r"\sum_{i=1}^{n} \sum_{j=1}^{n} a_{i} a_{j} u_{i}^{2}\right) - \sum_{i=1}^{n} "
            r"\sum_{j=1}^{n} a_{i} u_{i} a_{j} u_{j}",
        ): RENAMED,
    },
    "eq-attention-gradient-values": {
        (
            1,
            "index",
            r"\sum_{p=1}^{n} \sum_{e=1}^{d_{v}} \bar{O}_{pv} \frac{\partial "
            r"O_{pe}}{\partial V_{sv}}",
        ): ONLY_TERM,
        (2, "index", r"\sum_{p=1}^{n} \sum_{e=1}^{d_{v}} \bar{O}_{pv} A_{ps} \delta_{ev}"): DELTA,
    },
    "eq-attention-gradient-weights": {
        (
            1,
            "index",
            r"\sum_{p=1}^{n} \sum_{e=1}^{d_{v}} \bar{O}_{te} \frac{\partial "
            r"O_{pe}}{\partial A_{ts}}",
        ): ONLY_TERM,
    },
    "eq-softmax-backward": {
        (
            1,
            "index",
            r"\sum_{p=1}^{n} \sum_{r=1}^{m} \bar{A}_{tr} \frac{\partial A_{pr}}{\partial "
            r"S_{ts}}",
        ): ONLY_TERM,
    },
    "eq-attention-gradient-queries": {
        (
            1,
            "index",
            r"\sum_{p=1}^{n} \sum_{r=1}^{m} \bar{S}_{tr} \frac{\partial S_{pr}}{\partial "
            r"Q_{te}}",
        ): ONLY_TERM,
    },
    "eq-attention-gradient-keys": {
        (
            1,
            "index",
            r"\sum_{p=1}^{n} \sum_{r=1}^{m} \bar{S}_{ps} \frac{\partial S_{pr}}{\partial "
            r"K_{se}}",
        ): ONLY_TERM,
    },
}
