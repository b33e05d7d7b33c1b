"""One folder per op: `reference.py` is the truth in plain torch, the others must agree with it."""
