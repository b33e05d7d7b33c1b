"""Teacher forcing inside vLLM: a logits processor that makes a request say given tokens.

Owns nothing but that; loaded by `--logits-processors benchmarks.quality.teacher:TeacherForcing`.
While it forces, it keeps the model's own distribution at every forced position (full vocabulary,
float32) in a file of the folder that the environment variable `QUALITY_TEACHER_DIR` names.
`prompt_logprobs` cannot be used for this: vLLM reads no cache for such requests, so nothing would
be injected. Invariant: a request without `teacher_ids` is untouched.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.quality import TEACHER_FOLDER_ENV
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor


class TeacherForcing(AdapterLogitsProcessor):  # type: ignore[misc]
    """Reads `teacher_ids` (token ids to say) and `teacher_name` (of the file) of `vllm_xargs`."""

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: Any) -> Any:
        extra = params.extra_args or {}
        if "teacher_ids" not in extra:
            return None
        name = str(extra["teacher_name"])
        if not name.isalnum():
            raise ValueError(f"teacher_name is {name!r}; it must be letters and digits")
        ids = [int(i) for i in extra["teacher_ids"]]
        return Forced(ids, Path(os.environ[TEACHER_FOLDER_ENV]) / f"{name}.npy")


class Forced:
    """Forces one request.

    Args:
        ids: what it has to say.
        path: where the logits `[len(ids), vocabulary]` go, once the last token is forced.
    """

    def __init__(self, ids: list[int], path: Path) -> None:
        self._ids, self._path = ids, path
        self._rows: dict[int, np.ndarray] = {}

    def __call__(self, output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
        step = len(output_ids)
        if step >= len(self._ids):
            return logits
        # A chunk of a prefill comes here as well: its row is replaced by the one that counts.
        self._rows[step] = logits.float().cpu().numpy().copy()
        logits.fill_(float("-inf"))
        logits[self._ids[step]] = 0.0
        if step == len(self._ids) - 1:
            self._write()
        return logits

    def _write(self) -> None:
        rows = np.stack([self._rows[n] for n in range(len(self._ids))])
        part = self._path.with_suffix(".part")
        with part.open("wb") as file:
            np.save(file, rows)
        part.rename(self._path)
