r"""The one seam between the mathematics and what a processor likes best: the linear map.

Everything a Transformer multiplies by a weight goes through :func:`linear`. On a CPU torch
carries two libraries that can do it. ``F.linear`` asks MKL, which is fast on Intel's
processors and takes a slow path on others; oneDNN is fast on both, for matrices that are not
too small. Which is faster *here* is measured once a process, by :func:`probe`. Both compute
the same sums in another order; if anything about oneDNN is missing, ``F.linear`` does the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

KERNELS = ("auto", "torch", "onednn")
FEWEST_ROWS = 64
"""With fewer rows than this, the overhead of oneDNN costs more than it saves."""

MARGIN = 0.8
"""oneDNN is taken where it needs at most this share of ``F.linear``'s time."""

_chosen: str | None = None  # a fact about this processor and a wish of this process, no cache


def linear(
    x: Float[Tensor, "... I"], weight_OI: Float[Tensor, "O I"], bias_O: Tensor | None = None
) -> Float[Tensor, "... O"]:
    r"""A linear map of each row.

    .. math:: y = x W^\top + b

    ``x`` has any number of leading axes and I features along its last, W is ``weight_OI``
    (torch stores it transposed), b is ``bias_O`` (none by default). Equal to ``F.linear`` up
    to rounding, forward and backward.
    """
    if (
        x.device.type == "cpu"
        and x.dtype is torch.float32
        and x.numel() >= FEWEST_ROWS * x.shape[-1]
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and linear_kernel() == "onednn"
    ):
        if torch.is_grad_enabled():
            return _OneDNNLinear.apply(x, weight_OI, bias_O)
        return _onednn(x, weight_OI, bias_O)
    return F.linear(x, weight_OI, bias_O)


def linear_kernel() -> str:
    """``"torch"`` or ``"onednn"``: what :func:`linear` uses for large float32 maps on a CPU."""
    global _chosen
    if _chosen is None:
        _chosen = probe()
    return _chosen


def choose_linear(name: str = "auto") -> str:
    """Use the kernel called ``name`` from now on (``"auto"``: the faster one); returns it.

    ``"onednn"`` on a computer that has none is ``"torch"``.
    """
    global _chosen
    if name not in KERNELS:
        raise ValueError(
            f"The kernel of linear maps must be one of {', '.join(KERNELS)}, but got {name!r}; "
            f"choose one of these."
        )
    if name == "onednn" and not _onednn_works():
        name = "torch"
    _chosen = probe() if name == "auto" else name
    return _chosen


def probe(rounds: int = 5) -> str:
    """Measure one training step of one linear map both ways; the name of the faster kernel."""
    if not _onednn_works():
        return "torch"
    with torch.inference_mode(False), torch.enable_grad():
        generator = torch.Generator().manual_seed(0)
        operands = [
            torch.randn(*shape, generator=generator).requires_grad_()
            for shape in ((512, 128), (384, 128), (384,))
        ]

        def seconds(f: Callable[..., Tensor]) -> float:
            began = time.perf_counter()
            torch.autograd.grad(f(*operands).sum(), operands)
            return time.perf_counter() - began

        both = [(seconds(F.linear), seconds(_OneDNNLinear.apply)) for _ in range(rounds + 1)][1:]
    usual, onednn = (min(column) for column in zip(*both, strict=True))
    return "onednn" if onednn <= MARGIN * usual else "torch"


def _onednn(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight_OI, bias_O, "none", [], "")


def _onednn_works() -> bool:
    """Whether torch's operator, which is not public, is there and does what we think."""
    try:
        x, weight_OI, bias_O = torch.ones(3, 2), torch.ones(5, 2), torch.ones(5)
        return torch.equal(_onednn(x, weight_OI, bias_O), torch.full((3, 5), 3.0))
    except (AttributeError, RuntimeError, TypeError):
        return False


class _OneDNNLinear(torch.autograd.Function):
    r"""The linear map and its gradients.

    .. math::
        \bar x = \bar y W, \qquad \bar W = \bar y^\top x, \qquad \bar b = \textstyle\sum \bar y

    A bar marks the gradient of the loss; rows are summed over in the last two.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight_OI)
        return _onednn(x, weight_OI, bias_O)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight_OI = ctx.saved_tensors
        to_x, to_weight, to_bias = ctx.needs_input_grad
        grad_NO, x_NI = grad.flatten(0, -2), x.flatten(0, -2)
        return (
            _onednn(grad_NO, weight_OI.t(), None).view(x.shape) if to_x else None,
            _onednn(grad_NO.t(), x_NI.t(), None) if to_weight else None,
            grad_NO.sum(0) if to_bias else None,
        )


def gelu(x: Float[Tensor, "... F"]) -> Float[Tensor, "... F"]:
    r"""The Gaussian error linear unit, entry by entry.

    .. math:: \mathrm{GELU}(x) = x\,\Phi(x) = \tfrac12 x\,(1 + \operatorname{erf}(x/\sqrt2))

    Φ is the distribution function of the standard normal. Equal to ``F.gelu``, which on a CPU
    hands contiguous arrays to oneDNN; torch's own loop, which takes any other layout, is about
    twice as fast there. Source: Hendrycks and Gimpel 2016.
    """
    if x.device.type == "cpu" and x.ndim > 1 and x.shape[-2] > 1:
        return F.gelu(x.transpose(-1, -2)).transpose(-1, -2)
    return F.gelu(x)


class Linear(nn.Linear):
    """torch's own linear layer (its parameters, its first values) computed by :func:`linear`."""

    def forward(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        return linear(x, self.weight, self.bias)
