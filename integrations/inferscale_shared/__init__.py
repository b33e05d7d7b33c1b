"""What the integrations share: lazily imported names, the choice of a client, writing a turn.

Not for applications. Imports the public SDK alone, and no framework.
"""
