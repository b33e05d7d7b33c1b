"""The half of InferScale that lives inside vLLM: a KV connector that builds, keeps and injects
items."""
