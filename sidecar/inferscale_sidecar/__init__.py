"""The service next to the model: truth in SQL, an index per scope, compositions, the engine."""
