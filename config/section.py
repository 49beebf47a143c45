"""What all settings have in common: they are immutable, and every one is described and bounded."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(gt=0, lt=1)]


class ConfigError(Exception):
    """The configuration cannot be used; the message is one sentence for a person."""


class Section(BaseModel):
    """Base of all settings: immutable, no unknown keys, every field described."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
