"""Ways to encode and to order memory that are not shipped, beside the shipped one.

`python -m benchmarks.quality.trials --help`; docs/quality.md says what was tried and what it did.
"""
