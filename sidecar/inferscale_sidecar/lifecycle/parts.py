"""Puts a sidecar together: which object gets which. No logic, no order of starting (`serve`)."""

from collections.abc import Callable
from dataclasses import dataclass

from inferscale_sidecar.compose.frame import MemoryFrame
from inferscale_sidecar.config import Config
from inferscale_sidecar.embed import Embedder
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.errors import EngineUnavailable
from inferscale_sidecar.extract import LlmExtractor, LlmSummarizer
from inferscale_sidecar.extract.chat_model import ChatModel, EngineChatModel, OpenAiChatModel
from inferscale_sidecar.extract.judge import LlmJudge
from inferscale_sidecar.lifecycle.builder import Builder, make_recorder
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.rerank import Reranker
from inferscale_sidecar.service.blocks import BlockService
from inferscale_sidecar.service.chat import ChatService
from inferscale_sidecar.service.documents import DocumentService
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.memory_facts import FactWriter
from inferscale_sidecar.service.quality_gate import QualityGate
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.reconcile import Reconciler
from inferscale_sidecar.service.reranking import Reranking
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.service.summaries import SummaryWriter
from inferscale_sidecar.service.sweep import Sweeper
from inferscale_sidecar.service.tenant import TenantService
from inferscale_sidecar.service.threads import ThreadService
from inferscale_sidecar.service.transfer import TransferService
from inferscale_sidecar.store import MemoryStore


@dataclass(frozen=True)
class Services:
    """What answers requests."""

    memory: MemoryService
    recall: RecallService
    blocks: BlockService
    threads: ThreadService
    tenants: TenantService
    chat: ChatService
    metrics: Metrics
    facts: FactWriter
    documents: DocumentService
    transfer: TransferService
    gate: QualityGate | None
    sweeper: Sweeper
    summaries: SummaryWriter | None


def make_chat_model(config: Config, engine: Engine) -> ChatModel:
    """The model that `extract` names, or the served one."""
    extract = config.extract
    if not extract.url:
        return EngineChatModel(engine)
    return OpenAiChatModel(
        extract.url,
        extract.model,
        api_key=extract.api_key.get_secret_value() if extract.api_key else None,
        timeout_s=extract.timeout_s,
    )


def make_fact_writer(
    config: Config,
    store: MemoryStore,
    embedder: Embedder,
    searcher: Searcher,
    model: ChatModel,
    *,
    on_write: Callable[[], None],
    fingerprint: Callable[[], str | None],
) -> FactWriter:
    """Extraction and reconciliation with one LLM."""
    judge = LlmJudge(model) if config.extract.contradictions == "llm" else None
    return FactWriter(
        store,
        embedder,
        LlmExtractor(model, max_tokens=config.extract.max_tokens),
        Reconciler(searcher, judge),
        on_write=on_write,
        fingerprint=fingerprint,
    )


def make_summary_writer(
    config: Config, store: MemoryStore, model: ChatModel
) -> SummaryWriter | None:
    """Summaries of threads by the same LLM; None if there shall be none."""
    threads = config.threads
    if not threads.summary_after:
        return None
    summarizer = LlmSummarizer(model, max_tokens=threads.summary_max_tokens)
    return SummaryWriter(store, summarizer, keep=threads.summary_after)


def make_services(
    config: Config,
    store: MemoryStore,
    embedder: Embedder,
    engine: Engine,
    metrics: Metrics,
    builder: Builder | None,
    *,
    reranker: Reranker | None = None,
) -> Services:
    """The use cases over their ports."""

    def fingerprint() -> str | None:
        try:
            return engine.fingerprint
        except EngineUnavailable:
            return None

    def is_kv_off() -> bool:
        return builder is None

    on_write = builder.queue.notify if builder else lambda: None
    reranking = Reranking(reranker, config.rerank.candidates) if reranker else None
    searcher = Searcher(store, embedder, metrics, fingerprint=fingerprint, reranking=reranking)
    model = make_chat_model(config, engine)
    summaries = make_summary_writer(config, store, model)
    facts = make_fact_writer(
        config,
        store,
        embedder,
        searcher,
        model,
        on_write=on_write,
        fingerprint=fingerprint,
    )
    memory = MemoryService(
        store,
        embedder,
        searcher,
        metrics,
        on_write=on_write,
        fingerprint=fingerprint,
        is_kv_off=is_kv_off,
        facts=facts,
        infers=config.extract.enabled,
    )
    frame = builder.lists.frame if builder else MemoryFrame()
    recall = RecallService(
        store,
        searcher,
        frame,
        metrics,
        fingerprint=fingerprint,
        is_kv_off=is_kv_off,
        count_tokens=builder.tokenizer.count if builder else None,
    )
    chat = ChatService(
        engine,
        recall,
        store,
        frame,
        recorder=make_recorder(metrics, engine),
        placement=builder.lists.placement if builder else "system",
        finder=builder.finder if builder else None,
        warmer=builder.warmer if builder else None,
        suspects=builder.queue if builder else None,
        lazy=builder.lazy if builder else None,
        position=config.chat.position,
        turns=builder.turns if builder else None,
        prepares_turns=config.chat.prepare_turns,
        keep_turns_s=config.chat.keep_turns_s,
    )
    blocks = BlockService(store, metrics, on_write=on_write)
    tenants = TenantService(store, metrics, auth=config.auth.mode)
    documents = DocumentService(store, embedder, metrics)
    transfer = TransferService(store, embedder, on_write=on_write)
    return Services(
        memory=memory,
        recall=recall,
        blocks=blocks,
        threads=ThreadService(
            store, memory, recall, metrics, on_write=on_write, summaries=summaries
        ),
        tenants=tenants,
        chat=chat,
        metrics=metrics,
        facts=facts,
        documents=documents,
        transfer=transfer,
        gate=builder.gate if builder else None,
        summaries=summaries,
        sweeper=Sweeper(
            store, every_s=config.expiry.sweep_s, keep_s=config.expiry.keep_s, on_write=on_write
        ),
    )
