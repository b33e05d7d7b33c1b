"""The HTTP client of the engine: the control plane, and how failures look from above."""

import httpx
import pytest
from tests.sidecar.engine.fake_engine import SECRET, FakeEngine

from inferscale.protocol.engine import PROTOCOL_VERSION
from inferscale_sidecar.engine.base import EngineError, EngineRequest
from inferscale_sidecar.engine.client import EngineClient
from inferscale_sidecar.errors import EngineUnavailable, Unsupported

KEY = "ab" * 32


async def test_status_tells_the_served_name_and_whether_injection_is_on():
    engine = FakeEngine()
    async with engine.client() as client:
        assert not client.is_ready and not client.can_inject
        with pytest.raises(EngineUnavailable, match="not answered yet"):
            _ = client.model
        await client.status()
        assert (client.model, client.fingerprint) == ("demo", "fp-1@bank-1")
        assert client.is_ready and client.can_inject
        await client.set_injection(False, "for a test")
        assert not engine.enabled and not client.can_inject


async def test_a_connector_that_names_no_bank_is_known_by_its_model():
    engine = FakeEngine()
    engine.bank_id = None
    async with engine.client() as client:
        await client.status()
        assert client.fingerprint == "fp-1"


async def test_a_bank_is_emptied():
    engine = FakeEngine()
    engine.bank |= {KEY: (1, 2), "cd" * 32: (3,)}
    async with engine.client() as client:
        assert await client.clear() == 2
    assert engine.bank == {}


async def test_items_are_queried_and_deleted():
    engine = FakeEngine()
    engine.bank[KEY] = (1, 2)
    async with engine.client() as client:
        assert await client.present([KEY, "cd" * 32]) == {KEY}
        assert await client.delete([KEY]) == 1
        assert await client.present([KEY]) == set()


async def test_an_unknown_report_is_none_and_unknown_fields_are_ignored():
    engine = FakeEngine()
    engine._report("r1", "inject", 10, 4, None, [])["from_the_future"] = 1
    async with engine.client() as client:
        assert await client.report("nope") is None
        report = await client.report("r1")
    assert report is not None and (report.injected, report.prefilled) == (4, 6)


@pytest.mark.parametrize(
    "error", [httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.ReadTimeout]
)
async def test_every_broken_connection_is_engine_unavailable(error):
    def broken(request: httpx.Request) -> httpx.Response:
        raise error("broken")

    async with EngineClient("http://e", SECRET, transport=httpx.MockTransport(broken)) as client:
        for call in (client.status(), client.complete({}), client.open(EngineRequest("GET", "/"))):
            with pytest.raises(EngineUnavailable, match="restarting"):
                await call


async def test_a_broken_connection_takes_readiness_away():
    engine = FakeEngine()
    async with engine.client() as client:
        await client.status()
        engine.is_down = True
        with pytest.raises(EngineUnavailable):
            await client.complete({"prompt": "x"})
        assert not client.is_ready and not client.can_inject


async def test_an_engine_without_our_connector_is_unsupported_with_the_cure():
    engine = FakeEngine()
    engine.has_connector = False
    async with engine.client() as client:
        with pytest.raises(Unsupported, match="--middleware"):
            await client.status()


async def test_an_engine_half_of_another_version_is_named():
    def other(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"protocol": PROTOCOL_VERSION + 1})

    async with EngineClient("http://e", SECRET, transport=httpx.MockTransport(other)) as client:
        with pytest.raises(Unsupported, match="same version"):
            await client.status()


async def test_a_refused_request_keeps_the_engines_words():
    engine = FakeEngine()
    engine.refuse = lambda body: True
    async with engine.client() as client:
        with pytest.raises(EngineError, match="too hot") as caught:
            await client.complete({"prompt": "x"})
    assert caught.value.status == 400 and b"too hot" in caught.value.body


async def test_a_wrong_secret_is_an_error_not_an_absence():
    engine = FakeEngine()
    client = engine.client()
    client._secret = "wrong"
    async with client:
        with pytest.raises(EngineError, match="401"):
            await client.status()
