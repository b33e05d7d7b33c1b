"""How memory becomes prompt text, and which token ids that text has."""
