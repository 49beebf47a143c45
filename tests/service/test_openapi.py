"""The API's description: valid, complete, and true of the running service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from jsonschema.validators import validator_for  # type: ignore[import-untyped]  # it ships no types
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from stoker.config import Simulated
from stoker.service.openapi import PATH, document
from tests.service.rig import Rig, ask
from tests.service.scripts import TOOL_SCRIPT

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]
EXAMPLES = 25


def test_the_description_is_a_valid_schema_wherever_it_has_one() -> None:
    described = document("tiny", needs_key=True)
    assert described["openapi"] == "3.1.0"
    for schema in described["components"]["schemas"].values():
        validator_for({}).check_schema(schema)
    text = json.dumps(described)
    for schema in described["components"]["schemas"]:
        assert f"#/components/schemas/{schema}" in text, f"nothing refers to {schema}"


async def test_every_path_of_the_service_is_described(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start_service()
    status, text = await rig.get(PATH)
    assert status == 200
    paths = json.loads(text)["paths"]
    assert {"/v1/chat/completions", "/v1/messages", "/health/ready", PATH} <= set(paths)
    assert "security" not in json.loads(text), "this one has no keys"


def test_the_description_names_what_is_ignored_and_what_is_refused() -> None:
    schemas = document("org/model", needs_key=False)["components"]["schemas"]
    chat = schemas["ChatCompletionRequest"]
    assert chat["additionalProperties"] is False
    assert chat["properties"]["store"]["enum"] == [False, None]
    assert chat["properties"]["model"]["enum"] == ["org/model", "default"]
    assert "user" in chat["properties"]


@pytest.mark.timeout(180)
async def test_whatever_is_made_up_from_the_description_gets_an_answer_that_it_describes(
    make_rig: Callable[..., Rig],
) -> None:
    rig = make_rig(simulated=Simulated(script=TOOL_SCRIPT, step_s=0.0001))
    await rig.start()
    schema = schemathesis.openapi.from_dict(json.loads((await rig.get(PATH))[1]))
    schema.config.update(base_url=rig.url)
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        await asyncio.to_thread(_try, operation, GenerationMode.POSITIVE)
        # Whatever is asked for by a path is a name that might have been.
        if operation.body:
            await asyncio.to_thread(_try, operation, GenerationMode.NEGATIVE)
    async with rig.post(ask()) as response:
        assert response.status == 200, "it goes on serving"


def _try(operation: Any, mode: GenerationMode) -> None:
    @seed(0)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        case.call_and_validate(checks=CHECKS, timeout=20)

    call()
