"""What an integration adds to a call of its framework; see `__main__`."""
