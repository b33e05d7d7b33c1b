"""The wire: what the SDK and the sidecar, and the sidecar and the engine, say to each other.

Owns shapes and nothing else: no I/O, no defaults that depend on the environment. `memory` and
`chat` are spoken between the SDK and the sidecar; `engine` between the sidecar and vLLM.
"""
