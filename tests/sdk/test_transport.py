"""Retries, errors and headers as both drivers carry them out."""

import inspect

import httpx
import pytest

import inferscale
from inferscale import _operations, _transport
from inferscale._config import create_config
from inferscale._transport import ERROR_BY_EXCEPTION, AsyncTransport, SyncTransport
from inferscale.errors import (
    APIConnectionError,
    APITimeoutError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    UnavailableError,
)

STATUS = {"queued": 0, "building": 0, "ready": 0, "failed": 0}


@pytest.fixture(params=["sync", "async"])
def drive(request, sidecar):
    """`await drive(operation)` → result; `drive.slept` lists the pauses, in seconds."""
    slept: list[float] = []

    async def asleep(seconds):
        slept.append(seconds)

    def create(max_retries=2):
        config = create_config(
            base_url="http://s.test/v1/", api_key=None, timeout_s=7, max_retries=max_retries
        )
        mock = httpx.MockTransport(sidecar)
        if request.param == "sync":
            return SyncTransport(config, httpx.Client(transport=mock), sleep=slept.append)
        return AsyncTransport(config, httpx.AsyncClient(transport=mock), sleep=asleep)

    async def call(operation, **options):
        result = create(**options).call(operation)
        return await result if inspect.isawaitable(result) else result

    call.slept = slept
    return call


@pytest.mark.parametrize("status", [429, 503])
async def test_a_refusal_is_retried_after_the_time_asked_for(drive, sidecar, status):
    sidecar.refuse(status, retry_after="3")
    sidecar.refuse(status)
    sidecar.reply(STATUS)
    assert (await drive(_operations.builds())).is_done
    assert drive.slept[0] == 3 and 0.25 <= drive.slept[1] < 0.5


async def test_a_full_quota_is_not_tried_again(drive, sidecar):
    sidecar.refuse(429, "full", "quota_exceeded")
    with pytest.raises(QuotaExceededError, match=r"full .*Delete what is not needed"):
        await drive(_operations.builds())
    assert drive.slept == []


async def test_a_refusal_for_longer_than_half_a_minute_is_raised_at_once(drive, sidecar):
    sidecar.refuse(429, retry_after="59")
    with pytest.raises(RateLimitError) as caught:
        await drive(_operations.builds())
    assert caught.value.retry_after_s == 59
    assert drive.slept == []


async def test_the_last_refusal_is_raised(drive, sidecar):
    sidecar.refuse(429, retry_after="0")
    with pytest.raises(RateLimitError) as caught:
        await drive(_operations.builds())
    assert caught.value.retry_after_s == 0 and len(sidecar.requests) == 3
    sidecar.requests.clear()
    with pytest.raises(RateLimitError):
        await drive(_operations.builds(), max_retries=0)
    assert len(sidecar.requests) == 1


async def test_a_long_retry_after_is_not_waited_for(drive, sidecar):
    sidecar.refuse(503, retry_after="3600")
    with pytest.raises(UnavailableError):
        await drive(_operations.builds())
    assert not drive.slept


@pytest.mark.parametrize("status", [400, 401, 404, 409, 500, 502])
async def test_other_statuses_are_final(drive, sidecar, status):
    sidecar.refuse(status)
    with pytest.raises(inferscale.APIStatusError):
        await drive(_operations.builds())
    assert len(sidecar.requests) == 1


def _add(**options):
    scope = {"user_id": "a", "agent_id": None, "run_id": None}
    return _operations.add(
        "x", scope=scope, metadata=None, infer=None, idempotency_key=None, extra={}
    )


async def test_an_add_is_repeated_under_one_key(drive, sidecar):
    sidecar.fail(httpx.RemoteProtocolError("server disconnected"))
    sidecar.fail(httpx.ConnectError("refused"))
    sidecar.reply({"results": []})
    await drive(_add())
    assert len({request.headers["idempotency-key"] for request in sidecar.requests}) == 1
    assert len({request.content for request in sidecar.requests}) == 1


async def test_what_must_not_happen_twice_is_not_repeated_once_it_may_be_received(drive, sidecar):
    sidecar.fail(httpx.ReadError("reset"))
    for operation in (
        _operations.delete("m"),
        _operations.delete_all({"user_id": "a"}),
        _operations.update("m", text="x", data=None, metadata=None),
    ):
        sidecar.requests.clear()
        with pytest.raises(APIConnectionError) as caught:
            await drive(operation)
        assert caught.value.maybe_received and len(sidecar.requests) == 1


async def test_but_it_is_when_it_was_certainly_not_received(drive, sidecar):
    sidecar.fail(httpx.ConnectError("refused"))
    sidecar.reply({"deleted": 1})
    assert (await drive(_operations.delete("m"))).deleted == 1


async def test_a_timeout_is_final_and_names_the_remedy(drive, sidecar):
    sidecar.fail(httpx.ReadTimeout("slow"))
    with pytest.raises(TimeoutError, match="timeout_s") as caught:
        await drive(_operations.builds())
    assert isinstance(caught.value, APITimeoutError) and len(sidecar.requests) == 1
    assert isinstance(caught.value.__cause__, httpx.ReadTimeout)


async def test_a_refused_connection_names_address_and_remedy(drive, sidecar):
    sidecar.fail(httpx.ConnectError("refused"))
    with pytest.raises(APIConnectionError) as caught:
        await drive(_operations.builds())
    assert "http://s.test/v1/builds" in str(caught.value)
    assert "inferscale-sidecar start" in str(caught.value)


async def test_ids_in_the_query_stay_out_of_messages(drive, sidecar):
    sidecar.fail(httpx.ReadError("reset"))
    with pytest.raises(APIConnectionError) as caught:
        await drive(_operations.delete_all({"user_id": "alice"}))
    assert "alice" not in str(caught.value)


async def test_an_error_without_our_body_quotes_a_little_of_it(drive, sidecar):
    sidecar.replies = [httpx.Response(502, text="<html>" + "x" * 5000)]
    with pytest.raises(ServerError, match="<html>") as caught:
        await drive(_operations.builds())
    assert len(str(caught.value)) < 500 and caught.value.code is None


async def test_timeouts_headers_and_address(drive, sidecar):
    sidecar.reply(STATUS)
    await drive(_operations.builds())
    assert str(sidecar.last.url) == "http://s.test/v1/builds"
    assert sidecar.last.extensions["timeout"] == {"connect": 5, "read": 7, "write": 7, "pool": 7}
    assert sidecar.last.headers["user-agent"] == f"inferscale/{inferscale.__version__}"
    assert "authorization" not in sidecar.last.headers


def _subclasses(root):
    return {root}.union(*(_subclasses(child) for child in root.__subclasses__()))


def test_every_exception_of_httpx_is_mapped():
    request = httpx.Request("GET", "http://s.test")
    for kind in _subclasses(httpx.RequestError):
        mapped = _transport.map_exception(kind("x", request=request), "u")
        assert isinstance(mapped, inferscale.APIError), kind
        is_timeout = issubclass(kind, httpx.TimeoutException)
        assert isinstance(mapped, TimeoutError) == is_timeout, kind


def test_only_failures_to_connect_count_as_never_received():
    never = {kind for kind, (_, maybe) in ERROR_BY_EXCEPTION.items() if not maybe}
    assert never == {
        httpx.ConnectError,
        httpx.ConnectTimeout,
        httpx.PoolTimeout,
        httpx.UnsupportedProtocol,
    }


def test_a_client_that_was_passed_in_is_not_closed():
    client = httpx.Client()
    inferscale.Memory(http_client=client).close()
    assert not client.is_closed
    client.close()


def test_the_own_client_is_closed():
    memory = inferscale.Memory()
    memory.close()
    with pytest.raises(RuntimeError, match="closed"):
        memory.builds()
