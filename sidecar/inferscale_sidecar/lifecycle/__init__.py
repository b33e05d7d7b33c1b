"""A sidecar from start to stop: what it is made of, and in which order that comes and goes."""

from inferscale_sidecar.lifecycle.serve import Running, serve

__all__ = ["Running", "serve"]
