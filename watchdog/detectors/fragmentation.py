"""Memory that is held and serves nobody: MLX's pool against the live set, and holes in the prefix cache's memory.

The pool of freed buffers is no leak, and grows to several times the live set where nothing bounds it
(https://github.com/ml-explore/mlx/issues/3350). It is judged while requests run: a pool left by a busy hour is normal,
one that running requests do not draw upon is not.
"""

from __future__ import annotations

from ..samples import EngineReading, Sample
from ..verdicts import Cause, DetectorName, Level, Number, Verdict
from .windows import MINUTE_S, Readings

FIRING_RATIO = 2.0
SUSPECT_RATIO = 1.5
HOLES_FIRING_RATIO = 1.0
HOLES_SUSPECT_RATIO = 0.5
FLOOR_BYTES = 1.5e9
"""Less is not worth an action. Above the engine's default bound of its pool, which alone is harmless."""
WINDOW_S = 15 * MINUTE_S


class FragmentationDetector:
    """The least ratio of the last quarter hour of work counts."""

    def __init__(self, floor_bytes: float = FLOOR_BYTES) -> None:
        self._floor_bytes = floor_bytes
        self._pool = Readings(WINDOW_S, MINUTE_S)
        self._holes = Readings(WINDOW_S, MINUTE_S)

    def update(self, sample: Sample) -> Verdict:
        engine = sample.engine
        if engine is not None:
            self._read(sample.at, engine)
        verdicts = [
            self._judge(engine, self._pool, Cause.POOL, (SUSPECT_RATIO, FIRING_RATIO)),
            self._judge(engine, self._holes, Cause.PREFIX_CACHE, (HOLES_SUSPECT_RATIO, HOLES_FIRING_RATIO)),
        ]
        return max(verdicts, key=lambda verdict: (list(Level).index(verdict.level), verdict.cause is Cause.POOL))

    def _read(self, at: float, engine: EngineReading) -> None:
        for held, live, readings in ((*_pool(engine), self._pool), (*_holes(engine), self._holes)):
            if held is None or live is None:
                continue
            ratio = _ratio(held, live, self._floor_bytes)
            if ratio is None:
                readings.clear()
            elif engine.running or readings is self._holes:
                readings.add(at, ratio)

    def _judge(
        self, engine: EngineReading | None, readings: Readings, cause: Cause, bounds: tuple[float, float]
    ) -> Verdict:
        held, live = (None, None) if engine is None else _pool(engine) if cause is Cause.POOL else _holes(engine)
        numbers = {}
        if held is not None and live is not None:
            numbers = {
                Number.HELD_BYTES: held,
                Number.LIVE_BYTES: live,
                Number.FRAGMENTATION_RATIO: held / max(live, 1),
            }
        level = Level.OK
        if readings.covered_s >= WINDOW_S - MINUTE_S:
            level = Level.FIRING if readings.lowest >= bounds[1] else level
            level = Level.SUSPECT if bounds[0] <= readings.lowest < bounds[1] else level
        what = "MLX's pool of freed buffers" if cause is Cause.POOL else "the prefix cache's holes"
        sentence = f"the size of {what} is not known"
        if held is not None and live is not None:
            sentence = f"{what} take {held / 1e9:.1f} GB beside {live / 1e9:.1f} GB in use"
        return Verdict(DetectorName.FRAGMENTATION, level, sentence, numbers, WINDOW_S, 1.0, cause)


def pool_ratio(engine: EngineReading) -> float | None:
    """MLX's freed buffers over what it has in use; None when they are not known, or too few to matter."""
    held, live = _pool(engine)
    return None if held is None or live is None else _ratio(held, live, FLOOR_BYTES)


def _ratio(held: float, live: float, floor_bytes: float) -> float | None:
    return None if held < floor_bytes else held / max(live, floor_bytes / FIRING_RATIO)


def _pool(engine: EngineReading) -> tuple[float | None, float | None]:
    """Held and live bytes; the weights never pass through the pool."""
    if engine.cache_bytes is None or engine.active_bytes is None:
        return None, None
    return float(engine.cache_bytes), float(engine.active_bytes - (engine.weights_bytes or 0))


def _holes(engine: EngineReading) -> tuple[float | None, float | None]:
    total, live = engine.prefix_cache_bytes, engine.prefix_cache_live_bytes
    return (None, None) if total is None or live is None else (float(total - live), float(live))
