"""HTTP: decode, call a service, encode. The only layer that knows status codes."""
