"""Whatever an engine does and in whatever order: each client gets 0, 1, 2, … without gap or repetition, and one end."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from stoker.engine.protocol import Finished, FinishReason, Prefill, RejectCode, Rejected, Submit, Tokens
from tests.service.table import NO_TIME, Client, Table


class EngineComesAndGoes(RuleBasedStateMachine):
    """Deaths, drains, refusals, duplicates and words of the dead, mixed with clients that come, wait and leave."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.clients: dict[str, Client] = {}
        self.given_up: set[str] = set()
        self.running: dict[str, Submit] = {}

    @rule(target=requests, max_tokens=st.integers(1, 6), key=st.sampled_from("abc"))
    def add(self, max_tokens: int, key: str) -> str:
        number = len(self.clients)
        name = f"r{number}"
        # Prompts differ, so that none is refused for what another did.
        self.clients[name] = self.table.add(name, max_tokens=max_tokens, key=key, prompt=[1, number])
        return name

    @rule()
    def come(self) -> None:
        if self.table.engine.ready is None:
            self.table.engine_comes()

    @rule(on_purpose=st.booleans())
    def die(self, on_purpose: bool) -> None:
        if self.table.engine.ready is not None:
            if on_purpose:
                self.table.engine_drains()
            self.table.engine_dies()
            self.table.engine.cancelled.clear()
            self.running.clear()

    @rule()
    def drain(self) -> None:
        if self.table.engine.ready is not None:
            self.table.engine_drains()

    @rule(name=requests)
    def begin(self, name: str) -> None:
        if name in self.running:
            self.table.says(Prefill(name, 1, len(self.running[name].prompt), 0))

    @rule(name=requests, count=st.integers(1, 3), again=st.integers(0, 2))
    def emit(self, name: str, count: int, again: int) -> None:
        """The next tokens, with some that were there before."""
        submit = self.running.get(name)
        if submit is None:
            return
        position = len(self.clients[name].ids)
        end = min(position + count, submit.max_tokens)
        if position < end:
            begin = max(position - again, 0)
            self.table.says(Tokens(name, begin, list(range(begin, end))))
        else:
            self.table.says(Finished(name, FinishReason.LENGTH, NO_TIME))

    @rule(name=requests, code=st.sampled_from([RejectCode.QUEUE_FULL, RejectCode.STOPPING]))
    def reject(self, name: str, code: RejectCode) -> None:
        submit = self.running.get(name)
        if submit is not None and len(submit.emitted) == len(self.clients[name].ids):
            del self.running[name]
            self.table.says(Rejected(name, code, "not now"))

    @rule(name=requests)
    def say_what_is_not_so(self, name: str) -> None:
        """Of a request that the engine does not have."""
        if name not in self.running:
            self.table.says(Tokens(name, 0, [99]), Finished(name, FinishReason.STOP, NO_TIME))

    @rule(name=requests, more=st.integers(0, 3))
    def read(self, name: str, more: int) -> None:
        """A client takes what it has, and has room for more, or reads nothing of it."""
        client = self.clients[name]
        client.room = len(client.ids) + more
        if more:
            self.table.ledger.caught_up(name)

    @rule(name=requests)
    def let_go(self, name: str) -> None:
        """The engine answers a `Cancel`."""
        if name in self.running and name in self.table.engine.cancelled:
            del self.running[name]
            self.table.engine.cancelled = [other for other in self.table.engine.cancelled if other != name]
            self.table.says(Finished(name, FinishReason.CANCELLED, NO_TIME))

    @rule(name=consumes(requests))
    def leave(self, name: str) -> None:
        self.table.ledger.cancel(name)
        self.given_up.add(name)
        self.running.pop(name, None)

    @rule(seconds=st.floats(1, 40))
    def wait(self, seconds: float) -> None:
        self.table.now += seconds
        self.table.ledger.tick()

    @invariant()
    def all_is_in_order(self) -> None:
        self._take_what_was_submitted()
        self.table.ledger.check_integrity()
        snapshot = self.table.ledger.snapshot()
        open_clients = [name for name in self.clients if name not in self.given_up and not self.clients[name].ends]
        in_flight = snapshot.waiting + snapshot.queued + snapshot.running + snapshot.suspended + snapshot.paused
        assert in_flight == len(open_clients)
        for client in self.clients.values():
            assert client.ids == list(range(len(client.ids)))
            assert len(client.ends) <= 1

    def _take_what_was_submitted(self) -> None:
        for submit in self.table.engine.submitted:
            assert submit.id not in self.running, "the engine has it already"
            assert submit.emitted == self.clients[submit.id].ids
            self.running[submit.id] = submit
        self.table.engine.submitted.clear()
        self.running = {name: submit for name, submit in self.running.items() if not self.clients[name].ends}


TestEngineComesAndGoes = EngineComesAndGoes.TestCase
TestEngineComesAndGoes.settings = settings(max_examples=100, stateful_step_count=40)
