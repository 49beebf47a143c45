"""Settings of what is recorded of each request."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from .section import Section


class Telemetry(Section):
    """What is recorded of each request, and where it goes. The last 200 traces are in the service whatever is set."""

    otlp_endpoint: str | None = None
    """URL of an OpenTelemetry collector that traces are sent to, such as `http://127.0.0.1:4317`; absent, none are."""
    otlp_protocol: Literal["grpc", "http"] = "grpc"
    """How that collector is spoken to; `http` is protobuf over HTTP, usually at port 4318."""
    otlp_headers: dict[str, str] = Field(default_factory=dict)
    """Headers that it is sent, for instance a key."""
    sample_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of requests whose traces are sent and linked from metrics; errors, resumes and the slowest always are sent.
    What a caller's `traceparent` says about its own trace comes first."""
    capture_content: bool = False
    """Put prompts and answers into traces. They are what users wrote: leave this off unless you may read that."""

    @field_validator("otlp_endpoint")
    @classmethod
    def _url(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and not endpoint.startswith(("http://", "https://")):
            raise PydanticCustomError("no_url", "Input should begin with http:// or https://")
        return endpoint
