"""The service next to the model: truth in SQL, an index per scope, compositions, and the engine's keeper."""
