"""Reports and notes: readable by another process's handle, bounded in number."""

from pathlib import Path

import inferscale_vllm.state as module
from inferscale_vllm.state import EngineState


def test_reports_and_notes(tmp_path: Path) -> None:
    state = EngineState(tmp_path)
    assert state.get_report("r") is None
    assert state.get_note("switch", {"enabled": True}) == {"enabled": True}
    state.report("r", {"injected": 3}, {"total": 3})
    state.report("r", {"injected": 4}, {"total": 4})
    state.note("switch", {"enabled": False})
    assert state.get_report("r") == {"injected": 4}
    assert state.get_note("counters") == {"total": 4}
    assert state.get_note("switch") == {"enabled": False}


def test_the_oldest_reports_go(tmp_path: Path) -> None:
    state = EngineState(tmp_path)
    for number in range(module.MAX_REPORTS + 3):
        state.report(f"r{number}", {"n": number}, {})
    assert state.get_report("r2") is None
    assert state.get_report("r3") == {"n": 3}
    assert state.get_report(f"r{module.MAX_REPORTS + 2}") is not None
