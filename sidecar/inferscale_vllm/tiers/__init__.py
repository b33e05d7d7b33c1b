"""Faster places for items than the bank: pinned host memory, and GPU memory.

`policy.py` is the scheduler's half, `arenas.py` the worker's; `slabs.py` and `memory.py` are below.
"""
