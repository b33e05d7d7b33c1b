"""The quality check on the model that is served: real logits of a real engine."""

import httpx
import pytest

from .process import SidecarProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def test_the_demo_model_passes_and_keeps_being_injected_into(
    sidecar: SidecarProcess, http: httpx.Client
) -> None:
    assert http.post("/v1/quality-checks").status_code == 403, "it switches things: admins only"
    key = sidecar.cli("keys", "create", "admin", "--scope", "admin")["secret"]
    headers = {"authorization": f"Bearer {key}"}
    answer = httpx.post(f"{sidecar.url}/v1/quality-checks", headers=headers, timeout=240)
    found = answer.json()
    assert answer.status_code == 200 and found["passed"] is True, found
    assert 0 < found["kl"] < 0.2 and found["top1"] > 0.85, "0 would mean nothing was injected"
    assert found["text_right"] >= 4, "the text itself must tell the model something"
    assert found["kl"] < found["fast_kl"] < 0.2, "what is left to prefill brings it closer"
    assert http.get("/ready").json()["parts"]["injection"] == "on"
