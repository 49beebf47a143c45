"""An OTLP collector for tests, over gRPC or HTTP, on loopback: it keeps what it is sent, or misbehaves as told."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

DEADLINE_S = 30.0


@dataclass
class Collector:
    """What came, and how it answers."""

    url: str = ""
    status: int = 200
    hold: threading.Event | None = None
    """Answers only once this is set."""
    spans: list[Span] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    requests: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, request: ExportTraceServiceRequest, headers: dict[str, str]) -> None:
        with self._changed:
            self.requests += 1
            self._changed.notify_all()
        if self.hold is not None:
            self.hold.wait(DEADLINE_S)
        with self._changed:
            self.headers |= headers
            if self.status == 200:
                self.spans.extend(
                    span
                    for resource in request.resource_spans
                    for scope in resource.scope_spans
                    for span in scope.spans
                )
            self._changed.notify_all()

    def until_asked(self, times: int) -> None:
        """So many requests came, whatever became of them."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.requests >= times, DEADLINE_S), self.requests

    def until_root(self, count: int = 1) -> None:
        """So many spans came that are a request's own."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.roots()) >= count, DEADLINE_S), self.spans

    def roots(self) -> list[Span]:
        return [span for span in self.spans if span.kind == Span.SPAN_KIND_SERVER]


class Tree:
    """The spans of one trace, with what a test asks of them."""

    def __init__(self, spans: list[Span], trace_id: bytes) -> None:
        self.spans = [span for span in spans if span.trace_id == trace_id]
        self._by_id = {span.span_id: span for span in self.spans}
        (self.root,) = (span for span in self.spans if span.parent_span_id not in self._by_id)

    def names(self) -> list[str]:
        return sorted(span.name for span in self.spans)

    def path(self, span: Span) -> list[str]:
        """Names from the root down to it."""
        above = self._by_id.get(span.parent_span_id)
        return [*(self.path(above) if above is not None else []), span.name]

    def one(self, name: str) -> Span:
        (found,) = (span for span in self.spans if span.name == name)
        return found

    def all(self, name: str) -> list[Span]:
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start_time_unix_nano)

    def check_nesting(self) -> None:
        """No span begins before or ends after the one that it is part of."""
        for span in self.spans:
            assert span.start_time_unix_nano <= span.end_time_unix_nano, span
            above = self._by_id.get(span.parent_span_id)
            if above is not None:
                assert above.start_time_unix_nano <= span.start_time_unix_nano, (above.name, span.name)
                assert span.end_time_unix_nano <= above.end_time_unix_nano, (above.name, span.name)
            for event in span.events:
                assert span.start_time_unix_nano <= event.time_unix_nano <= span.end_time_unix_nano, event


def attributes(span: Span) -> dict[str, Any]:
    """In Python's own types."""
    return {pair.key: _value(pair.value) for pair in span.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


@contextlib.contextmanager
def http_collector() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()} | {"path": self.path}
            collector.take(ExportTraceServiceRequest.FromString(body), headers)
            with contextlib.suppress(OSError):
                self.send_response(collector.status)
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, format: str, *args: object) -> None:
            """Not on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def grpc_collector() -> Iterator[Collector]:
    collector = Collector()

    class Servicer(TraceServiceServicer):
        def Export(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:  # noqa: N802
            collector.take(request, {key: str(value) for key, value in context.invocation_metadata()})
            if collector.status != 200:
                context.abort(grpc.StatusCode.INTERNAL, "told to fail")
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(4))
    add_TraceServiceServicer_to_server(Servicer(), server)  # type: ignore[no-untyped-call]  # generated
    collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()
