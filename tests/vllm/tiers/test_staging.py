"""What capture relies on, of every device: rows arrive whole, and nobody waits unasked."""

import time

import pytest
import torch

from inferscale_vllm.tiers.staging import CpuStaging, CudaStaging, Staging, staging_of

ROWS, WIDTH = 64, 4096


@pytest.fixture
def staging(device: torch.device) -> Staging:
    return staging_of(device)


def test_each_device_has_its_own(staging: Staging, device: torch.device) -> None:
    assert type(staging) is (CpuStaging if device.type == "cpu" else CudaStaging)
    assert staging.step((2, 3), torch.bfloat16).device.type == device.type
    assert staging.beside(torch.arange(4)).device.type == device.type
    assert staging.item((2, 3), torch.bfloat16).device.type == "cpu"


def test_rows_arrive_in_their_places(staging: Staging, device: torch.device) -> None:
    step = staging.step((ROWS, WIDTH), torch.float32)
    step.copy_(torch.arange(ROWS)[:, None].expand(-1, WIDTH))
    one, two = (staging.item((n, WIDTH), torch.float32) for n in (40, 30))
    pairs = [(one[10:], step[:30]), (two, step[30:60])]
    arrival = staging.send(pairs, [torch.tensor(True, device=device)])
    assert arrival.is_whole() and arrival.is_whole()
    assert one[10:, 0].tolist() == list(range(30)) and two[:, -1].tolist() == list(range(30, 60))


def test_missing_rows_are_told(staging: Staging, device: torch.device) -> None:
    matches = [torch.tensor(found, device=device) for found in (True, False)]
    step, item = (make((1, 1), torch.float32) for make in (staging.step, staging.item))
    assert staging.lacks(matches) or not staging.send([(item, step)], matches).is_whole()
    assert not staging.lacks(matches[:1])


def test_a_step_is_not_used_again_before_it_has_left(
    staging: Staging, device: torch.device
) -> None:
    items = [staging.item((ROWS, WIDTH), torch.float32) for _ in range(3)]
    arrivals = []
    for number, item in enumerate(items):
        if device.type == "cuda":
            torch.cuda._sleep(50_000_000)
        step = staging.step((ROWS, WIDTH), torch.float32)
        step.fill_(number)
        arrivals.append(staging.send([(item, step)], [torch.tensor(True, device=device)]))
        del step
    assert all(arrival.is_whole() for arrival in arrivals)
    assert [item.unique().tolist() for item in items] == [[0], [1], [2]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_is_not_waited_for() -> None:
    device = torch.device("cuda")
    staging = staging_of(device)
    step, item = (make((ROWS, WIDTH), torch.float32) for make in (staging.step, staging.item))
    staging.send([(item, step)], [torch.tensor(True, device=device)]).is_whole()  # first use
    torch.cuda._sleep(500_000_000)  # some 250 ms
    started = time.perf_counter()
    slots = staging.beside(torch.arange(ROWS))
    step[:] = slots[:, None]
    arrival = staging.send([(item, step)], [(slots >= 0).all()])
    handed_over = time.perf_counter() - started
    assert arrival.is_whole() and item[:, 0].tolist() == list(range(ROWS))
    assert handed_over < (time.perf_counter() - started) / 4
