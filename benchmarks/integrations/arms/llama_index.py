"""LlamaIndex: a chat engine's turn, awaiting."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from benchmarks.integrations.arms import Arms, Call
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import Memory as ChatMemory

from inferscale import AsyncMemory
from inferscale_llama_index import InferScaleLLM, InferScaleMemory


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`. Each turn is a session of its own."""
    scope = {"user_id": user}
    plain = InferScaleLLM(
        api_base=url, additional_kwargs={"extra_body": {"memory": scope}}, context_window=32_768
    )
    async with AsyncMemory(url) as memory:

        def asking(llm: InferScaleLLM, session: Callable[[], ChatMemory]) -> Call:
            async def ask(text: str) -> object:
                return await SimpleChatEngine.from_defaults(llm=llm, memory=session()).achat(text)

            return ask

        ours = InferScaleLLM(scope, api_base=url, context_window=32_768)
        yield Arms(
            by_hand=asking(plain, ChatMemory.from_defaults),
            attached=asking(ours, ChatMemory.from_defaults),
            remembered=asking(
                ours, lambda: InferScaleMemory.from_defaults(scope=scope, client=memory)
            ),
        )
