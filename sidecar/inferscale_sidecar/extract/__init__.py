"""From messages to facts worth remembering. `Extractor` is the port, an LLM the implementation."""

from inferscale_sidecar.extract.base import Extracted, ExtractionFailed, Extractor, Fact, Turn
from inferscale_sidecar.extract.llm import LlmExtractor
from inferscale_sidecar.extract.summary import LlmSummarizer, Summarizer

__all__ = [
    "Extracted",
    "ExtractionFailed",
    "Extractor",
    "Fact",
    "LlmExtractor",
    "LlmSummarizer",
    "Summarizer",
    "Turn",
]
