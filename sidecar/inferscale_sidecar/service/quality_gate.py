"""Keeps injection off on a model that was found to answer worse with it.

Owns the consequences of a quality check, now and after restarts; the check itself is `quality`.
"""

import logging

from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.engine.verdict import VerdictFile
from inferscale_sidecar.service.quality import QualityCheck
from inferscale_sidecar.service.quality_figures import QualityFigures

log = logging.getLogger(__name__)


class QualityGate:
    """One per sidecar.

    Args:
        engine: whose injection is switched.
        check: measures.
        verdicts: remembers.
    """

    def __init__(self, engine: Engine, check: QualityCheck, verdicts: VerdictFile) -> None:
        self._engine, self._check, self._verdicts = engine, check, verdicts

    async def run(self) -> QualityFigures:
        """Checks, and switches injection off or (after an earlier refusal) on again.

        A model that was refused before is injected into while the check runs, some seconds.

        Raises:
            Conflict: a check is running.
            Unsupported: injection is off for another reason.
            EngineUnavailable: the engine is down; if it was refused before, it still is.
        """
        refused = self._objection()
        if refused and not self._check.is_running:
            await self._engine.set_injection(True)
            await self._engine.status()
        try:
            figures = await self._check.run()
        except BaseException:
            await self.apply()
            raise
        if figures.passed is not None:
            self._verdicts.keep(
                self._engine.fingerprint,
                self._check.policy,
                passed=figures.passed,
                detail=figures.detail,
            )
        await self.apply()
        return figures

    async def apply(self) -> None:
        """Switches injection off if the last verdict on this model and policy was bad."""
        if reason := self._objection():
            log.warning("injection is off, the quality check failed: %s", reason)
            await self._engine.set_injection(False, f"quality check: {reason}")
            await self._engine.status()

    def _objection(self) -> str | None:
        return self._verdicts.objection(self._engine.fingerprint, self._check.policy)
