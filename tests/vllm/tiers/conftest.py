"""Every kind of memory that arenas may lie in: the host's, and a GPU's where there is one."""

import pytest
import torch

from inferscale_vllm.tiers.memory import CpuMemory, CudaMemory, Memory

GPU = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ],
)


@pytest.fixture(params=["cpu", GPU])
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture
def memory(device: torch.device) -> Memory:
    return CpuMemory() if device.type == "cpu" else CudaMemory(device)
