"""What runs the model, and the model's files: can this mlx-lm run it, does its chat template work, does it fit."""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import psutil
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ...config import Config, Paths
from ...engine import models
from ...engine.errors import ModelError
from .findings import Finding, Layer, Level

_finding = partial(Finding, Layer.RUNTIME)

ROOM_BESIDE_WEIGHTS = 1.2
"""KV, the pool and the processes themselves need some of the memory too."""
PROBE = "Which colour has the sky?"


@dataclass(frozen=True)
class RuntimeReading:
    """What is installed and what the model's files say; no model where it is still to be fetched."""

    mlx: str | None
    mlx_lm: str | None
    metal: bool
    model: models.ModelInfo | None
    model_error: str | None
    to_fetch: str | None
    """The model that the next start will fetch."""
    template: str | None
    """The chat template of the model's files, None without one."""
    memory_bytes: int


def read_runtime(config: Config, paths: Paths, metal: bool) -> RuntimeReading:
    """Look at the files; nothing is fetched, loaded or imported."""
    info, error, to_fetch = None, None, None
    try:
        folder = models.present(config.engine.model, paths.models)
        if folder is None:
            to_fetch = config.engine.model
        else:
            info = models.check(folder)
    except ModelError as problem:
        error = str(problem)
    return RuntimeReading(
        mlx=_version("mlx"),
        mlx_lm=_version("mlx-lm"),
        metal=metal,
        model=info,
        model_error=error,
        to_fetch=to_fetch,
        template=None if info is None else _template(info.path),
        memory_bytes=psutil.virtual_memory().total,
    )


def judge_runtime(reading: RuntimeReading) -> list[Finding]:
    """The libraries, then the model."""
    findings = [_judge_libraries(reading)]
    if reading.model_error is not None:
        remedy = "do as it says, or serve another model"
        return [*findings, _finding("model", Level.FAILURE, reading.model_error, remedy)]
    if reading.model is None:
        measured = f"{reading.to_fetch} is not here yet"
        remedy = f"the next start fetches it; `stoker models pull {reading.to_fetch}` does so now"
        return [*findings, _finding("model", Level.WARNING, measured, remedy)]
    return [
        *findings,
        _judge_size(reading.model, reading.memory_bytes),
        _judge_precision(reading.model, reading.metal),
        _judge_template(reading.template),
    ]


def _judge_libraries(reading: RuntimeReading) -> Finding:
    if reading.mlx is None or reading.mlx_lm is None:
        missing = "mlx" if reading.mlx is None else "mlx-lm"
        return _finding("libraries", Level.FAILURE, f"{missing} is not installed", "run `make install` again")
    return _finding("libraries", Level.OK, f"mlx {reading.mlx}, mlx-lm {reading.mlx_lm}")


def _judge_size(model: models.ModelInfo, memory_bytes: int) -> Finding:
    measured = f"{model.name}: {model.bytes / 1e9:.1f} GB of weights on {memory_bytes / 1e9:.0f} GB of memory"
    if model.bytes * ROOM_BESIDE_WEIGHTS > memory_bytes:
        remedy = "serve a smaller one, or make one: `stoker models convert NAME --bits 4`"
        return _finding("size", Level.FAILURE, measured, remedy)
    return _finding("size", Level.OK, measured)


def _judge_precision(model: models.ModelInfo, metal: bool) -> Finding:
    precision = model.quantization or "not quantized"
    if model.quantization is not None and not metal:
        remedy = "on a CPU float32 is the fastest: `stoker models convert NAME --dtype float32` from an unquantized one"
        return _finding("precision", Level.WARNING, f"{precision}, on a CPU", remedy)
    return _finding("precision", Level.OK, precision)


def _judge_template(template: str | None) -> Finding:
    if template is None:
        remedy = "serve an instruct model; a base model can only do /v1/completions"
        return _finding("chat template", Level.WARNING, "the model has none", remedy)
    try:
        text = rendered(template)
    except jinja2.TemplateError as error:
        remedy = "fetch the model again, or take the chat_template of a newer upload of it"
        return _finding("chat template", Level.FAILURE, f"it cannot be rendered: {error}", remedy)
    if PROBE not in text:
        remedy = "it is another model's template: fetch the model again"
        return _finding("chat template", Level.FAILURE, "it leaves out what the user says", remedy)
    return _finding("chat template", Level.OK, "renders a question")


def rendered(template: str) -> str:
    """The probe through the template, with what `transformers` gives templates. Raises `jinja2.TemplateError`."""

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    environment.globals.update(raise_exception=refuse, strftime_now=lambda form: "2026-01-01")
    messages = [{"role": "user", "content": PROBE}]
    try:
        return environment.from_string(template).render(
            messages=messages, add_generation_prompt=True, bos_token="", eos_token=""
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise jinja2.TemplateError(str(error)) from error


def _template(folder: Path) -> str | None:
    """Where model folders keep it: a file of its own, or a key of the tokenizer's configuration."""
    try:
        file = folder / "chat_template.jinja"
        if file.exists():
            return file.read_text(encoding="utf-8")
        for name in ("chat_template.json", "tokenizer_config.json"):
            if (folder / name).exists():
                found = _text_of(json.loads((folder / name).read_bytes()).get("chat_template"))
                if found is not None:
                    return found
    except (OSError, ValueError, AttributeError):
        return None
    return None


def _text_of(value: Any) -> str | None:
    """A template, or the default one of several by name."""
    if isinstance(value, list):
        named = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
        value = named.get("default")
    return value if isinstance(value, str) else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
