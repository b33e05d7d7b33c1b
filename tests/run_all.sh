#!/usr/bin/env bash
# Every test, in two halves at once. Tests that start an engine run one by one: an engine computes on
# all cores, and its threads wait for each other. Half of their time is starts, on one core; all other
# tests run beside them at the lowest priority, on what they leave, and their output follows at the end.
#
#   tests/run_all.sh .venv/bin/python
set -euo pipefail

half() { "$@" -m pytest -q --hypothesis-profile=ci "${options[@]}"; }

others_log=$(mktemp)
trap 'rm -f "$others_log"; kill $(jobs -p) 2>/dev/null || true' EXIT
options=(-m "not engine" --numprocesses 2 --dist loadfile --no-loadscope-reorder)
half nice -n 19 "$1" >"$others_log" 2>&1 &
others=$!

engines_status=0 others_status=0
options=(-m engine)
half "$1" || engines_status=$?
wait "$others" || others_status=$?
cat "$others_log"
exit $((engines_status ? engines_status : others_status))
