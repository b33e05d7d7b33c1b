"""Triton kernels run in its interpreter here, unless the run is on a GPU."""

from __future__ import annotations

import os

import torch

if not torch.cuda.is_available():
    # Read when a kernel is decorated, so before any test module imports one.
    os.environ["TRITON_INTERPRET"] = "1"
