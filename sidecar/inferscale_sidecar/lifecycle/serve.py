"""Starts a sidecar, serves until told to stop, and takes everything down in order.

Owns order. Stopping: no new work, running requests end, builds, store, engine.
Invariant: whatever fails and wherever, what was started is stopped, and no engine is left behind.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from inferscale._version import __version__
from inferscale_sidecar.config import Config
from inferscale_sidecar.embed import Embedder, SentenceTransformerEmbedder
from inferscale_sidecar.engine.command import (
    ServedModel,
    chat_template_of,
    choose_model,
    detect_device,
)
from inferscale_sidecar.engine.tokenizer import ChatTokenizer
from inferscale_sidecar.lifecycle.application import make_app
from inferscale_sidecar.lifecycle.builder import Builder, make_builder
from inferscale_sidecar.lifecycle.host import EngineHost, attach, do_without, supervise
from inferscale_sidecar.lifecycle.http import StopSignal, bind, serving
from inferscale_sidecar.lifecycle.mcp import load_mcp, mcp_running
from inferscale_sidecar.lifecycle.parts import make_services
from inferscale_sidecar.lifecycle.watch import EngineWatch
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.rerank import CrossEncoderReranker, Reranker
from inferscale_sidecar.service.memory_facts import FactWriter
from inferscale_sidecar.store import MemoryStore, SqlStore

Detail = Callable[[str], None]
Stage = Callable[[str], AbstractContextManager[Detail]]
"""Opens a named stage of starting; what it yields takes details such as a percentage."""


@dataclass(frozen=True)
class Running:
    """A sidecar that serves. `injection` is `on` or `off`."""

    url: str
    engine_url: str
    model: str
    injection: str


OnReady = Callable[[Running], Awaitable[int | None]]


async def serve(config: Config, stage: Stage, on_ready: OnReady) -> int:
    """Run a sidecar.

    Args:
        config: all settings.
        stage: told about each step of starting.
        on_ready: called once requests can be answered. If it returns a number the sidecar stops,
            else it serves until SIGINT or SIGTERM.

    Returns:
        The exit code: what `on_ready` returned, 130 after SIGINT, else 0.

    Raises:
        ConfigError, EngineUnavailable: it could not start.
    """
    stop = StopSignal()
    async with AsyncExitStack() as stack:
        stack.enter_context(stop.installed())
        work = asyncio.ensure_future(_run(config, stage, on_ready, stack))
        asked = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, asked):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({work})
        if work.cancelled():
            return 130 if asked.result() == signal.SIGINT else 0
        return work.result()


async def _run(config: Config, stage: Stage, on_ready: OnReady, stack: AsyncExitStack) -> int:
    listener = bind(config.server.host, config.server.port)
    stack.callback(listener.close)
    with stage("model") as detail:
        starts = config.engine.enabled and not config.engine.url
        model = await _model(config, detail) if starts else None
    host = _host(config, model)
    await stack.enter_async_context(_engine(host))
    with stage("memory"):
        store = await stack.enter_async_context(open_store(config))
        embedder = await stack.enter_async_context(open_embedder(config, store))
        reranker = await stack.enter_async_context(open_reranker(config))
    path = model.path if model else await _attached_model(host)
    metrics = Metrics(__version__)
    template = chat_template_of(config.engine.args)
    load = partial(ChatTokenizer.load, path, chat_template=template)
    builder = await asyncio.to_thread(make_builder, config, store, host.client, metrics, load)
    services = make_services(
        config, store, embedder, host.client, metrics, builder, reranker=reranker
    )
    watch = EngineWatch(host, builder, metrics)
    await stack.enter_async_context(_building(builder))
    mcp = await asyncio.to_thread(load_mcp, config) if config.mcp.enabled else None
    await stack.enter_async_context(mcp_running(mcp))
    app = make_app(config, services, host.client, watch.readiness, mcp)
    drain_s, on_drain = config.server.drain_timeout_s, host.board.begin_drain
    await stack.enter_async_context(serving(app, listener, drain_s=drain_s, on_drain=on_drain))
    with stage("engine"):
        await host.board.wait_ready()
    with stage("self-test"):
        await watch.engine_came_up()
    await stack.enter_async_context(_background(watch.run(), "engine-watch"))
    await stack.enter_async_context(_background(services.sweeper.run(), "expiry"))
    await stack.enter_async_context(_extracting(services.facts))
    if services.summaries is not None:
        await stack.enter_async_context(_background(services.summaries.run(), "summaries"))
    await stack.enter_async_context(_background(services.documents.run(), "expired documents"))
    url = f"http://{config.server.host}:{listener.getsockname()[1]}"
    injection = watch.readiness().parts.get("injection", "off")
    code = await on_ready(Running(url, host.client.base_url, host.client.model, injection))
    if code is None:
        await asyncio.Event().wait()
    return code or 0


async def _model(config: Config, detail: Detail) -> ServedModel:
    loop = asyncio.get_running_loop()

    def progress(stage: str, share: float) -> None:
        loop.call_soon_threadsafe(detail, f"{stage} ({share:.0%})")

    return await asyncio.to_thread(choose_model, config, detect_device(), progress)


def _host(config: Config, model: ServedModel | None) -> EngineHost:
    if not config.engine.enabled:
        return do_without()
    return supervise(config, model) if model else attach(config)


async def _attached_model(host: EngineHost) -> str:
    await host.board.wait_ready()
    return str((await host.client.status())["model"])


@asynccontextmanager
async def _engine(host: EngineHost) -> AsyncIterator[None]:
    try:
        await host.board.start()
        yield
    finally:
        await host.client.aclose()
        await host.board.stop()


@asynccontextmanager
async def open_store(config: Config) -> AsyncIterator[MemoryStore]:
    """The database of these settings, migrated. Raises ConfigError if it cannot be opened."""
    config.home.mkdir(parents=True, exist_ok=True)
    store = SqlStore.of(config)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_embedder(config: Config, store: MemoryStore) -> AsyncIterator[Embedder]:
    """The embedder, bound to the store. Raises ConfigError if it is another one than before."""
    # Read by Hugging Face's libraries when they are imported: their bars would cross our stages.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    embedder = await asyncio.to_thread(
        SentenceTransformerEmbedder.load, config.embed.model, device=config.embed.device
    )
    try:
        await store.bind_embedder(embedder.name, embedder.dim)
        yield embedder
    finally:
        await embedder.close()


@asynccontextmanager
async def open_reranker(config: Config) -> AsyncIterator[Reranker | None]:
    """The reranker; None if none is set. Raises ConfigError if it cannot be loaded."""
    if not config.rerank.model:
        yield None
        return
    rerank = config.rerank
    loaded = await asyncio.to_thread(CrossEncoderReranker.load, rerank.model, device=rerank.device)
    try:
        yield loaded
    finally:
        await loaded.close()


@asynccontextmanager
async def _building(builder: Builder | None) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if builder is not None:
            await builder.queue.stop()
            await builder.turns.stop()
            await builder.warmer.stop()
            if builder.lazy is not None:
                await builder.lazy.stop()


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def _extracting(facts: FactWriter) -> AsyncIterator[None]:
    try:
        async with _background(facts.run(), "extractions"):
            yield
    finally:
        await facts.close()
