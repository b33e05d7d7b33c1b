"""Stores of other products, read as they lie. Nothing here writes, and nothing is trusted."""
