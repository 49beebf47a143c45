"""What requests to the OpenAI API have in common: sampling, stop strings, streams."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from ...engine.protocol import Priority
from ..sampling import Wishes
from ..schemas import MAX_STOPS, Part, strings

MAX_CHOICES = 16

Stop = Annotated[
    list[Annotated[str, Field(min_length=1)]] | None,
    Field(max_length=MAX_STOPS),
    BeforeValidator(strings, json_schema_input_type=str | list[str] | None),
]
Temperature = Annotated[float, Field(ge=0, le=2)] | None
TopP = Annotated[float, Field(gt=0, le=1)] | None
TokenCount = Annotated[int, Field(ge=1)] | None
TokenId = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]
"""JSON's keys are strings."""
Penalty = Annotated[float, Field(ge=-2, le=2)] | None


def priority_of(service_tier: str | None) -> Priority:
    """`flex` is for what can wait; every other tier is the usual one here."""
    return Priority.BATCH if service_tier == "flex" else Priority.INTERACTIVE


class StreamOptions(Part):
    """Extras of a stream."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class SamplingRequest(Part):
    """The parameters that chat and text completions share; the last three of sampling are extensions that many
    servers have."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    max_tokens: TokenCount = None
    stop: Stop = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    temperature: Temperature = None
    top_p: TopP = None
    frequency_penalty: Penalty = None
    presence_penalty: Penalty = None
    logit_bias: dict[TokenId, Annotated[float, Field(ge=-100, le=100)]] | None = None
    top_k: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None

    @property
    def choices(self) -> int:
        return self.n or 1

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def wishes(self) -> Wishes:
        return Wishes(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            repetition_penalty=self.repetition_penalty,
            logit_bias={int(token): bias for token, bias in self.logit_bias.items()} if self.logit_bias else None,
        )
