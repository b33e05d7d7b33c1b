"""KV data movement in torch and Triton. Knows nothing of memories, users or HTTP."""
