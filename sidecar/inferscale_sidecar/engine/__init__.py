"""The engine: starting vLLM, speaking to it, preparing the demo model."""
