"""Pickles of others, read as data: no class of theirs is ever imported, nothing is ever called.

Invariant: whatever bytes come in, all that can be made are plain values and `Bag`s.
"""

import io
import pickle
from typing import Any

from inferscale_sidecar.errors import InvalidInput

_PLAIN = {
    ("builtins", name): kind
    for name, kind in {"set": set, "frozenset": frozenset, "list": list, "dict": dict}.items()
}


class Bag:
    """Stands for an object of a class that is known: its attributes, none of its methods."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        # A pydantic object's state holds its fields one level down.
        inner = state.get("__dict__", state) if isinstance(state, dict) else {}
        self.fields = inner if isinstance(inner, dict) else {}


def read_pickle(content: bytes, *, bags: str | None = None) -> Any:
    """The value in a pickle.

    Args:
        bags: objects of classes in modules that begin so become `Bag`s; None: there are none.

    Raises:
        InvalidInput: it is damaged, or needs any other class.
    """
    try:
        return _Unpickler(content, bags).load()
    except InvalidInput:
        raise
    # Damaged bytes make an unpickler raise almost anything; see its documentation.
    except Exception as error:
        raise InvalidInput(f"a pickle cannot be read: {type(error).__name__}: {error}") from error


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, bags: str | None) -> None:
        super().__init__(io.BytesIO(content))
        self._bags = bags

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return _PLAIN[module, name]
        if self._bags is not None and f"{module}.".startswith(f"{self._bags}."):
            return Bag
        raise InvalidInput(f"a pickle holds {module}.{name}, which is not loaded: it could do harm")
