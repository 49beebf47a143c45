"""The engine's readings: what its heartbeats say, and how fast it decoded since the sample before."""

from __future__ import annotations

from ...engine.protocol import Decoding, Heartbeat, Tier
from ..samples import EngineReading
from .sensors import ProcessReading

_NOTHING = Decoding()


class EngineSensor:
    """One engine over all its incarnations."""

    def __init__(self) -> None:
        self._epoch = 0
        self._decoding = _NOTHING

    def read(
        self,
        epoch: int,
        beat: Heartbeat | None,
        up_s: float | None,
        step_bound_s: float | None,
        process: ProcessReading,
    ) -> EngineReading:
        """What is known of this incarnation; before its first heartbeat that is what the system says alone."""
        if beat is None:
            return EngineReading(epoch, footprint_bytes=process.footprint_bytes)
        memory, cache = beat.memory, beat.prefix_cache
        tokens_per_s, batch = self._decoded(epoch, beat.decoding)
        return EngineReading(
            epoch=epoch,
            pid=beat.pid,
            phase=beat.phase,
            up_s=up_s,
            step_age_s=beat.last_step_age,
            step_bound_s=step_bound_s,
            running=beat.running,
            waiting=beat.waiting,
            steps_total=beat.steps,
            busy_s_total=beat.busy_s,
            computed_tokens_total=beat.computed_tokens,
            generated_tokens_total=beat.generated_tokens,
            requests_total=beat.finished,
            active_bytes=memory.active,
            cache_bytes=memory.cache,
            weights_bytes=memory.weights,
            kv_bytes=memory.kv,
            prefix_cache_bytes=cache.nbytes.get(Tier.RAM),
            footprint_bytes=memory.footprint if process.footprint_bytes is None else process.footprint_bytes,
            swapped_bytes=process.swapped_bytes,
            limit_bytes=memory.limit,
            decode_tokens_per_s=tokens_per_s,
            batch=batch,
            resources=memory.arrays,
            resources_limit=memory.arrays_limit,
            context_tokens=beat.decoding.context_tokens or None,
            fds=process.fds,
            fds_limit=process.fds_limit,
        )

    def _decoded(self, epoch: int, now: Decoding) -> tuple[float | None, float | None]:
        """Tokens a second and rows a step since the last reading of the same incarnation; None without such steps."""
        before = self._decoding if epoch == self._epoch else _NOTHING
        self._epoch, self._decoding = epoch, now
        steps, seconds = now.steps - before.steps, now.seconds - before.seconds
        if steps <= 0 or seconds <= 0:
            return None, None
        return (now.tokens - before.tokens) / seconds, (now.rows - before.rows) / steps
