"""A deterministic batch with injectable faults, for tests of everything around the engine.

Each token is a function of the request's prompt, seed and position, so a request resumed by another incarnation
goes on with exactly the text it would have had. Tokens are bytes of lower-case words; id 0 ends the text.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence

from ..config import Fault, Simulated
from .batch import Found, RowSpec, Sampled, TierSize
from .kv_cost import MOST_TOKENS, KvBudget, KvCost, Layer
from .protocol import Grammar, Limits, Memory, MissReason, Tier
from .scheduler import Chunk

END_OF_TEXT = 0
_ALPHABET = b"abcdefghijklmnopqrstuvwxyz  "


class SimulatedBatch:
    """Rows of make-believe. `epoch` and `called`, whether their signal has come, decide which faults apply."""

    def __init__(self, settings: Simulated, limits: Limits, epoch: int, called: Callable[[], bool]) -> None:
        self._settings = settings
        self._called = called
        self._limits = limits
        self._faults = [fault for fault in settings.faults if fault.epochs == 0 or epoch <= fault.epochs]
        tokens = limits.kv_tokens if limits.kv_tokens is not None else MOST_TOKENS
        self._kv = KvBudget(KvCost([Layer(settings.token_bytes)]), tokens * settings.token_bytes)
        self._expected: dict[str, _Row] = {}
        self._rows: dict[str, _Row] = {}
        self._under_way: deque[list[_Row]] = deque()
        self._tokens = 0
        self._leak = bytearray()
        time.sleep(settings.load_s)

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def model(self) -> str:
        return "simulated"

    @property
    def vocabulary(self) -> int:
        return self._settings.vocabulary

    def refusal(self, grammar: Grammar) -> str | None:
        return None if self._settings.script is not None else "the simulated engine follows no grammar without a script"

    def expect(self, spec: RowSpec) -> None:
        self._expected[spec.id] = _Row(spec, self._settings.script)

    def should_wait(self, row_id: str) -> bool:
        return False

    def has_room_for(self, row_id: str) -> bool:
        rows = [*self._rows.values(), self._expected[row_id]]
        return self._kv.taken((max(row.length, row.known), 0) for row in rows) <= self._kv.nbytes

    def has_room_after(self, chunks: Sequence[Chunk]) -> bool:
        counts = {chunk.id: chunk.count for chunk in chunks}
        rows = ((row.length + counts.get(row_id, 0), 0) for row_id, row in self._rows.items())
        return self._kv.taken(rows) <= self._kv.nbytes

    def add(self, row_id: str) -> Found:
        self._rows[row_id] = self._expected.pop(row_id)
        return Found(miss=MissReason.COLD)

    def preempt(self, row_id: str) -> int:
        assert not self._under_way, "a step is under way"
        row = self._expected[row_id] = self._rows.pop(row_id)
        row.length = 0
        return row.known

    @property
    def needs_tokens(self) -> bool:
        return False

    def launch(self, chunks: Sequence[Chunk]) -> None:
        self._spend_a_step([self._rows[chunk.id] for chunk in chunks])
        for chunk in chunks:
            self._rows[chunk.id].length += chunk.count
        self._under_way.append([self._rows[chunk.id] for chunk in chunks if chunk.draws])

    def collect(self, leave: int) -> list[Sampled]:
        sampled: list[Sampled] = []
        while len(self._under_way) > leave:
            rows = [row for row in self._under_way.popleft() if not row.removed]
            sampled.extend(Sampled(row.spec.id, [row.next_token()]) for row in rows)
        self._tokens += len(sampled)
        return sampled

    def remove(self, row_id: str) -> None:
        if self._expected.pop(row_id, None) is None:
            self._rows.pop(row_id).removed = True

    def settle(self) -> None:
        """Nothing waits."""

    def reclaim(self, level: int) -> int:
        return 0

    def allow_drafts(self, allowed: bool) -> None:
        """It has none."""

    def check_integrity(self) -> None:
        assert not self._rows and not self._expected, "rows are left behind"

    def close(self) -> None:
        """Nothing to write."""

    def memory(self) -> Memory:
        kv = self._kv.taken((row.length, 0) for row in self._rows.values())
        budget = self._kv.nbytes if self._limits.kv_tokens is not None else None
        limit = self._settings.memory_limit_bytes
        return Memory(active=kv + len(self._leak), weights=0, kv=kv, limit=limit, kv_budget=budget)

    def tiers(self) -> dict[Tier, TierSize]:
        return {}

    def _spend_a_step(self, rows: Sequence[_Row]) -> None:
        duration = self._settings.step_s
        for fault in self._faults:
            if self._has_come(fault, rows):
                duration *= self._suffer(fault)
        time.sleep(duration)

    def _has_come(self, fault: Fault, rows: Sequence[_Row]) -> bool:
        if fault.on_signal:
            return self._called()
        if fault.prompt_contains is None:
            return self._tokens >= fault.after_tokens
        text = fault.prompt_contains.encode()
        return any(text in row.prompt_text and row.position >= fault.after_tokens for row in rows)

    def _suffer(self, fault: Fault) -> float:
        """Let the fault happen; returns by how much it stretches the step."""
        match fault.kind:
            case "crash":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                while True:
                    time.sleep(3600)
            case "leak":
                self._leak.extend(bytes(int(fault.amount)))
            case "slow":
                return fault.amount
            case "fragment":
                raise AssertionError("fragment is a fault of the MLX engine")
        return 1.0


class _Row:
    """One request: its text is the script, or drawn from a hash of prompt and seed, a byte a position."""

    def __init__(self, spec: RowSpec, script: str | None) -> None:
        self.spec = spec
        self._script = None if script is None else script.encode()
        self.sampled = 0
        self.length = 0
        """Tokens in its KV."""
        self.removed = False
        self.prompt_text = bytes(token & 0xFF for token in spec.prompt)
        self._key = hashlib.sha256(repr((spec.prompt, spec.sampling.seed)).encode()).digest()
        self._length = 40 + int.from_bytes(self._key[:2]) % 400 if self._script is None else len(self._script)

    @property
    def position(self) -> int:
        return len(self.spec.emitted) + self.sampled

    @property
    def known(self) -> int:
        """Tokens of its sequence, with those that were drawn and read."""
        return len(self.spec.sequence) + self.sampled

    def next_token(self) -> int:
        position = self.position
        self.sampled += 1
        if position >= self._length:
            return END_OF_TEXT
        if self._script is not None:
            return self._script[position]
        digest = hashlib.blake2b(position.to_bytes(8), key=self._key, digest_size=2).digest()
        return _ALPHABET[int.from_bytes(digest) % len(_ALPHABET)]
