"""What runs the model, and the model's files: can this mlx-lm run it, does its chat template work, does it fit."""

from __future__ import annotations

import importlib.metadata
import json
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ...engine import models
from ...engine.errors import ModelError
from .findings import START_AGAIN, Finding, Layer, Level

_finding = partial(Finding, Layer.RUNTIME)

ROOM_BESIDE_WEIGHTS = 1.2
"""KV, the pool and the processes themselves need some of the memory too."""
PROBE = "Which colour has the sky?"


@dataclass(frozen=True)
class RuntimeReading:
    """What is installed and what the model's files say; no model where it is still to be fetched."""

    mlx: str | None
    mlx_lm: str | None
    on_cpu: bool
    served_as: str
    """The model as the configuration names it."""
    pullable: bool
    """Whether that name is one that can be fetched, not somebody's own folder."""
    model: models.ModelInfo | None
    model_error: str | None
    template: str | None
    """The chat template of the model's files, None without one."""
    memory_bytes: int | None


def read_runtime(model: str, models_folder: Path, memory_bytes: int | None, *, on_cpu: bool) -> RuntimeReading:
    """Look at the files of `model`, named as in the configuration; nothing is fetched, loaded or imported."""
    info, error = None, None
    try:
        folder = models.present(model, models_folder)
        info = None if folder is None else models.check(folder)
    except ModelError as problem:
        error = str(problem)
    return RuntimeReading(
        mlx=_version("mlx"),
        mlx_lm=_version("mlx-lm"),
        on_cpu=on_cpu,
        served_as=model,
        pullable=models.pullable(model),
        model=info,
        model_error=error,
        template=None if info is None else _template(info.path),
        memory_bytes=memory_bytes,
    )


def judge_runtime(reading: RuntimeReading) -> list[Finding]:
    """The libraries, then the model."""
    findings = [_judge_libraries(reading)]
    if reading.model_error is not None:
        fetching = f" (`stoker models pull {reading.served_as}` fetches it)" if reading.pullable else ""
        remedy = f"do as it says{fetching}, or set `engine.model` to another one; then {START_AGAIN}"
        return [*findings, _finding("model", Level.FAILURE, reading.model_error, remedy)]
    if reading.model is None:
        measured = f"{reading.served_as} is not here yet"
        remedy = f"`stoker models pull {reading.served_as}` fetches it now, `stoker serve` when it starts"
        return [*findings, _finding("model", Level.WARNING, measured, remedy)]
    if reading.memory_bytes is not None:
        findings.append(_judge_size(reading, reading.model, reading.memory_bytes))
    return [*findings, _judge_precision(reading, reading.model), _judge_template(reading, reading.model)]


def _judge_libraries(reading: RuntimeReading) -> Finding:
    if reading.mlx is None or reading.mlx_lm is None:
        missing = "mlx" if reading.mlx is None else "mlx-lm"
        return _finding("libraries", Level.FAILURE, f"{missing} is not installed", "run `make install` again")
    return _finding("libraries", Level.OK, f"mlx {reading.mlx}, mlx-lm {reading.mlx_lm}")


def _judge_size(reading: RuntimeReading, model: models.ModelInfo, memory_bytes: int) -> Finding:
    measured = f"{model.name}: {model.bytes / 1e9:.1f} GB of weights on {memory_bytes / 1e9:.0f} GB of memory"
    if model.bytes * ROOM_BESIDE_WEIGHTS > memory_bytes:
        # What is quantized cannot be quantized again.
        make = f", or make one: `stoker models convert {reading.served_as} --bits 4`" if not model.quantization else ""
        remedy = f"choose a smaller one{make}; set `engine.model` to its name and {START_AGAIN}"
        return _finding("size", Level.FAILURE, measured, remedy)
    return _finding("size", Level.OK, measured)


def _judge_precision(reading: RuntimeReading, model: models.ModelInfo) -> Finding:
    precision = model.quantization or "not quantized"
    if model.quantization is None or not reading.on_cpu:
        return _finding("precision", Level.OK, precision)
    # Sizes are judged first: what does not fit as float32 is right to be quantized, however slow.
    if reading.memory_bytes is not None and _float32_bytes(model) * ROOM_BESIDE_WEIGHTS > reading.memory_bytes:
        return _finding("precision", Level.OK, f"{precision}; on a CPU float32 is faster, but would not fit")
    remedy = (
        "on a CPU float32 is the fastest: make it of the unquantized model, "
        "`stoker models convert NAME --dtype float32`, "
        f"set `engine.model` to its name and {START_AGAIN}"
    )
    return _finding("precision", Level.WARNING, f"{precision}, on a CPU", remedy)


def _float32_bytes(model: models.ModelInfo) -> float:
    """What the weights would take unquantized; about, since a model can have layers of several widths."""
    bits = re.match(r"\d+", model.quantization or "")
    return model.bytes * 32 / (int(bits[0]) if bits else 4)


def _judge_template(reading: RuntimeReading, model: models.ModelInfo) -> Finding:
    if reading.template is None:
        remedy = f"a base model can only do /v1/completions: set `engine.model` to an instruct model and {START_AGAIN}"
        return _finding("chat template", Level.WARNING, "the model has none", remedy)
    try:
        text = rendered(reading.template)
    except jinja2.TemplateError as error:
        remedy = f"{_fetch_again(reading, model)}; if it is in the upload, choose another one"
        return _finding("chat template", Level.FAILURE, f"it cannot be rendered: {error}", remedy)
    if PROBE not in text:
        remedy = f"it is another model's template: {_fetch_again(reading, model)}"
        return _finding("chat template", Level.FAILURE, "it leaves out what the user says", remedy)
    return _finding("chat template", Level.OK, "renders a question")


def _fetch_again(reading: RuntimeReading, model: models.ModelInfo) -> str:
    if not reading.pullable:
        return f"put the model's own files into {model.path} again and {START_AGAIN}"
    # What is there already is not fetched.
    return f"move {model.path} away, fetch it with `stoker models pull {reading.served_as}` and {START_AGAIN}"


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
