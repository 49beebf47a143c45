"""Traces as OpenTelemetry's spans, sent by its exporters over gRPC or HTTP. Imported by the export's thread alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from .. import __version__
from ..config import Telemetry
from .trace import Span, Trace

TIMEOUT_S = 5.0
"""For one batch, retries included."""
TRACES_PATH = "/v1/traces"
"""Where collectors take traces over HTTP."""

_SCOPE = InstrumentationScope("stoker", __version__)
_RESOURCE = Resource({SERVICE_NAME: "stoker", SERVICE_VERSION: __version__})


class OtlpSender:
    """One collector."""

    def __init__(self, settings: Telemetry) -> None:
        # It would log every failure, with a traceback; `export` says when failing begins and ends.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter = _exporter(settings)

    def send(self, traces: Sequence[Trace]) -> bool:
        spans = [span for trace in traces for span in spans_of(trace)]
        return self._exporter.export(spans) is SpanExportResult.SUCCESS


def _exporter(settings: Telemetry) -> SpanExporter:
    endpoint = settings.otlp_endpoint
    assert endpoint is not None, "only with a collector"
    if settings.otlp_protocol == "grpc":
        return GrpcExporter(endpoint=endpoint, headers=settings.otlp_headers, timeout=TIMEOUT_S)
    url = endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + TRACES_PATH
    return HttpExporter(endpoint=url, headers=settings.otlp_headers, timeout=TIMEOUT_S)


def spans_of(trace: Trace) -> Iterator[ReadableSpan]:
    """Made anew rather than recorded by a tracer: only now is it known that they are to be sent."""
    for span in trace.spans:
        assert span.end is not None, "the trace has ended"
        yield ReadableSpan(
            name=span.name,
            context=_context(trace, span.id),
            parent=_parent(trace, span),
            resource=_RESOURCE,
            attributes=span.attributes,
            events=[Event(event.name, event.attributes, trace.wall_ns(event.at)) for event in span.events],
            kind=SpanKind.SERVER if span is trace.root else SpanKind.INTERNAL,
            instrumentation_scope=_SCOPE,
            status=Status() if span.error is None else Status(StatusCode.ERROR, span.error),
            start_time=trace.wall_ns(span.start),
            end_time=trace.wall_ns(span.end),
        )


def _parent(trace: Trace, span: Span) -> SpanContext | None:
    parent = trace.parent_of(span)
    if parent is not None:
        return _context(trace, parent.id)
    return None if trace.remote is None else _context(trace, trace.remote.span_id, is_remote=True)


def _context(trace: Trace, span_id: int, is_remote: bool = False) -> SpanContext:
    # What is sent was sampled, be it at the end.
    return SpanContext(trace.trace_id, span_id, is_remote, TraceFlags(TraceFlags.SAMPLED))
