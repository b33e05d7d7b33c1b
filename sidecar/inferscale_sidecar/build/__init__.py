"""Turns memory text into KV ahead of time: windows, the queue that sends them, and prefixes."""
