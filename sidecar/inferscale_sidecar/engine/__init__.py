"""The sidecar's side of vLLM: the port, its HTTP client, the tokenizer, the supervisor, the self-
test.
"""
