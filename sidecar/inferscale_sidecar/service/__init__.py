"""The use cases: remember, find, recall, forget, and who may. Over ports; speaks no HTTP."""
