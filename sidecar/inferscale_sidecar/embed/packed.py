"""Linear layers whose weights are laid out once for oneDNN, instead of anew in each call.

Few tokens make thin products, in which laying out the weights takes most of the time: one sentence
is embedded in two thirds of it, 64 in half. Invariant: a model gives the same vectors as before, to
rounding, or is left as it was.
"""

import logging
from collections.abc import Callable

import numpy as np
import torch

from inferscale_sidecar.embed.base import Vectors

log = logging.getLogger(__name__)

_TOLERANCE = 1e-5
_ROWS = 1024  # the most at once, and what the layout is chosen for; as fast for 20 as any other
_PROBE = ["She lives in Lisbon.", "a"]


class PackedLinear(torch.nn.Module):
    """Stands for a `torch.nn.Linear` in float32 on the CPU, for inference.

    Raises:
        RuntimeError, AttributeError: this torch or this processor has no oneDNN.
    """

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()  # [out, in]
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)
        self.bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[…, in]` to `[…, out]`."""
        width = x.shape[-1]
        num_rows = x.numel() // width
        if num_rows > _ROWS:
            parts = [self(some) for some in torch.split(x.reshape(-1, width), _ROWS)]
            return torch.cat(parts).view(*x.shape[:-1], -1)
        spare = round_up(num_rows) - num_rows
        if not spare:
            return self._product(x)
        y = self._product(torch.nn.functional.pad(x.reshape(-1, width), (0, 0, 0, spare)))
        return y[:num_rows].view(*x.shape[:-1], -1)

    def _product(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.packed, self.bias, "none", [], ""
        )
        return y


def round_up(rows: int) -> int:
    """To one of four sizes per power of two: oneDNN compiles code for every size, and keeps it."""
    step = max(4, 1 << max(0, (rows - 1).bit_length() - 3))
    return -(-rows // step) * step


def pack(model: torch.nn.Module, encode: Callable[[list[str]], Vectors]) -> int:
    """Replace a model's linear layers if that does not change what it gives.

    Args:
        encode: gives the model's vectors.

    Returns:
        How many were replaced; 0 if oneDNN is not there or computes something else.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return 0
    before, replaced = encode(_PROBE), list[tuple[torch.nn.Module, str, torch.nn.Linear]]()
    try:
        with torch.inference_mode():
            _replace(model, replaced)
        apart = float(np.abs(encode(_PROBE) - before).max())
    except (RuntimeError, AttributeError) as error:
        apart, cause = np.inf, str(error).partition("\n")[0]
    else:
        cause = f"vectors differ by {apart:.1e}"
    if apart <= _TOLERANCE:
        return len(replaced)
    for parent, name, linear in replaced:
        setattr(parent, name, linear)
    log.info("the embedder runs without packed weights: %s", cause)
    return 0


def _replace(
    module: torch.nn.Module, replaced: list[tuple[torch.nn.Module, str, torch.nn.Linear]]
) -> None:
    for name, child in list(module.named_children()):
        # A subclass may do more than multiply.
        if type(child) is torch.nn.Linear and child.weight.dtype == torch.float32:
            setattr(module, name, PackedLinear(child))
            replaced.append((module, name, child))
        else:
            _replace(child, replaced)
