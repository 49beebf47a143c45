"""The `stoker` command: serve, and ask or tell a running tree. Exit codes: 0 fine, 1 the answer is no, 2 misuse.

What is slow to import is imported by the command that needs it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from . import __version__
from .config import Config, ConfigError, Paths, Section, load
from .dashboards import commands as dashboards_commands
from .soak.commands import bench, compare, soak
from .watchdog.commands import alerts, connect, doctor, engine, install, status, watch
from .watchdog.commands.options import AsJson, ConfigFile, aside, hint, print_json, set_quiet

if TYPE_CHECKING:
    from .engine.models import ModelInfo
    from .watchdog.home import Serving

app = typer.Typer(
    name="stoker",
    help="Keeps a self-hosted LLM endpoint alive for days and says exactly why when it can't.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Check and show the configuration.", no_args_is_help=True)
models_app = typer.Typer(help="Fetch, convert, list and remove models.", no_args_is_help=True)
app.add_typer(alerts.app, name="alerts")
app.add_typer(engine.app, name="engine")
app.add_typer(config_app, name="config")
app.add_typer(models_app, name="models")
app.add_typer(watch.app, name="watch")
app.add_typer(dashboards_commands.app, name="dashboards")
app.add_typer(soak.app, name="soak")


def main() -> None:
    """The entry point: every known error is one sentence on standard error."""
    from .alerts.errors import AlertsError
    from .engine.errors import EngineError
    from .soak.errors import SoakError
    from .watchdog.errors import WatchdogError

    try:
        app()
    except (AlertsError, ConfigError, EngineError, SoakError, WatchdogError) as error:
        typer.echo(f"stoker: {error}", err=True)
        sys.exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stoker {__version__}")
        raise typer.Exit


@app.callback()
def stoker(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the answer and errors: no progress, no hints.")
    ] = False,
) -> None:
    """Keeps a self-hosted LLM endpoint alive for days and says exactly why when it can't."""
    set_quiet(quiet)


@app.command()
def serve(
    port: Annotated[int | None, typer.Option(help="Port of the API; 0 lets the system choose.")] = None,
    watchdog_port: Annotated[int | None, typer.Option(help="Port of the watchdog's interface.")] = None,
    model: Annotated[str | None, typer.Option(help="`demo`, a model folder or a hub name.")] = None,
    config: ConfigFile = None,
) -> None:
    """Run the endpoint until SIGTERM or Ctrl-C; a second signal cuts what still runs."""
    import uvloop

    from .engine.blas import missing_warning
    from .engine.progress import progress_on
    from .process import configure_logging
    from .watchdog import tree
    from .watchdog.door import premises
    from .watchdog.log_file import LogFile
    from .watchdog.log_output import LogOutput

    paths = Paths.from_environment()
    settings = load(config, paths, _overrides(port, watchdog_port, model))
    with premises(settings, paths, progress_on(aside()), hint) as held:
        if settings.engine.kind == "mlx" and (warning := missing_warning()):
            typer.echo(f"stoker: {warning}", err=True)
        kept = LogFile(paths.logs, settings.watchdog.log_file_bytes, settings.watchdog.log_files)
        with contextlib.closing(kept), contextlib.closing(LogOutput(sys.stderr, kept)) as output:
            configure_logging("watchdog", output)
            greet = partial(_greet, model=held.model_name)
            uvloop.run(tree.serve(held, output, greet, os.environ.get("NOTIFY_SOCKET")))


def _overrides(port: int | None, watchdog_port: int | None, model: str | None) -> dict[str, dict[str, Any]]:
    """What the command line says, by section and key; what it leaves out stays with the file."""
    given = (("server", "port", port), ("watchdog", "port", watchdog_port), ("engine", "model", model))
    return {section: {key: value} for section, key, value in given if value is not None}


def _greet(serving: Serving, model: str) -> None:
    """Nobody may be listening any more (`stoker serve | head -1`), which is no reason to end."""
    question = [{"role": "user", "content": "What is the capital of France?"}]
    body = json.dumps({"model": model, "temperature": 0, "messages": question})
    with contextlib.suppress(OSError):
        typer.echo(
            f"Stoker is ready: {serving.api}/v1 serves {model}; the watchdog is at {serving.watchdog}/status\n"
            f"Try:  curl {serving.api}/v1/chat/completions -H 'Content-Type: application/json' -d '{body}'"
        )


app.command("bench")(bench.bench)
app.command("compare")(compare.compare)
app.command("doctor")(doctor.doctor)
app.command("connect")(connect.connect)
app.command("incidents")(status.incidents)
app.command("status")(status.status)
app.command("install")(install.install)
app.command("uninstall")(install.uninstall)


@app.command(hidden=True)
def metrics() -> None:
    """Print `docs/metrics.md` as it should be."""
    from .watchdog.metrics_page import page

    typer.echo(page(), nl=False)


@config_app.command("check")
def config_check(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Say whether the configuration can be used; exit code 1 when not."""
    try:
        load(config, Paths.from_environment())
    except ConfigError as error:
        if as_json:
            print_json({"valid": False, "error": str(error)})
        else:
            typer.echo(f"stoker: {error}", err=True)
        raise typer.Exit(1) from error
    if as_json:
        print_json({"valid": True})
    else:
        typer.echo("the configuration is valid")


@config_app.command("show")
def config_show(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Print the effective configuration, defaults included, as TOML."""
    settings = load(config, Paths.from_environment())
    if as_json:
        print_json(settings.model_dump(mode="json"))
    else:
        typer.echo("\n".join(_toml(settings.model_dump(mode="json", exclude_none=True))).strip())


@config_app.command("schema")
def config_schema(as_json: AsJson = False) -> None:
    """Describe every key: its type, its default and what it is for."""
    if as_json:
        print_json(Config.model_json_schema())
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("key", "type", "default", "description", box=None, pad_edge=False)
    for row in _schema_rows(Config()):
        table.add_row(*map(escape, row))
    table.columns[0].no_wrap = True
    Console().print(table)


def _toml(values: dict[str, Any], table: str = "") -> Iterator[str]:
    """The lines of a TOML document; keys of a table stand before its subtables, as TOML wants it."""
    for key, value in values.items():
        if not isinstance(value, dict):
            yield f"{key} = {_toml_value(value)}"
    for key, value in values.items():
        if isinstance(value, dict):
            yield f"\n[{table}{key}]"
            yield from _toml(value, f"{table}{key}.")


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(each) for each in value) + "]"
    # JSON's strings, numbers and booleans are TOML's.
    return json.dumps(value, ensure_ascii=False)


def _schema_rows(section: Section, table: str = "") -> Iterator[tuple[str, str, str, str]]:
    for name, field in type(section).model_fields.items():
        default = getattr(section, name)
        if isinstance(default, Section):
            yield f"[{table}{name}]", "table", "", field.description or ""
            yield from _schema_rows(default, f"{table}{name}.")
        else:
            kind = field.annotation.__name__ if isinstance(field.annotation, type) else str(field.annotation)
            yield f"{table}{name}", kind, json.dumps(default, default=str), field.description or ""


@models_app.command("pull")
def models_pull(name: Annotated[str, typer.Argument(help="`demo` or a hub name.")], as_json: AsJson = False) -> None:
    """Fetch a model, convert it if need be, and check it."""

    from .engine import models
    from .engine.progress import progress_on

    folder = models.ensure(name, Paths.from_environment().models, progress_on(aside()))
    if as_json:
        print_json(_model_row(models.check(folder)))
    else:
        typer.echo(f"{name} is at {folder}")


@models_app.command("list")
def models_list(as_json: AsJson = False) -> None:
    """List the models that can be served without fetching anything."""
    from rich.console import Console
    from rich.table import Table

    from .engine import models

    found = models.installed(Paths.from_environment().models)
    if as_json:
        print_json([_model_row(model) for model in found])
        return
    table = Table("model", "architecture", "context", "size", "quantization", "path", box=None, pad_edge=False)
    for model in found:
        size, context = f"{model.bytes / 1e9:.2f} GB", str(model.context_tokens or "")
        table.add_row(model.name, model.architecture, context, size, model.quantization or "", str(model.path))
    table.columns[-1].overflow = "fold"
    Console().print(table if found else "no models yet; fetch one with `stoker models pull demo`")


@models_app.command("convert")
def models_convert(
    source: Annotated[
        str, typer.Argument(help="`demo`, a model folder, a name of `stoker models list` or a hub name.")
    ],
    *,
    bits: Annotated[Literal["4", "8", "mixed"] | None, typer.Option(help="Quantize; `mixed` is 4 and 6 bits.")] = None,
    group_size: Annotated[Literal["32", "64", "128"], typer.Option(help="Weights that share a scale.")] = "64",
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"] | None, typer.Option(help="Of everything that is not quantized.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the new model; default: the old one's and the bits.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a model of another precision out of one; the source stays as it is."""

    from .engine import models
    from .engine.conversion import Precision
    from .engine.progress import progress_on

    precision = Precision(bits=bits, group_size=group_size, dtype=dtype)
    progress = progress_on(aside())
    made = models.convert(source, Paths.from_environment().models, precision, name, progress)
    if as_json:
        print_json(_model_row(made))
    else:
        typer.echo(f"{source} as {precision} is at {made.path}; serve it with `stoker serve --model {made.name}`")


@models_app.command("remove")
def models_remove(
    name: Annotated[str, typer.Argument(help="As `stoker models list` shows it.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a fetched or converted model from the disk."""
    from .engine import models

    paths = Paths.from_environment()
    folder = models.located(name, paths.models)
    if folder.resolve() in _served_folders(paths):
        typer.echo(f"stoker: {name} is being served; stop `stoker serve` first, or serve another model", err=True)
        raise typer.Exit(1)
    if not yes:
        typer.confirm(f"Remove {folder}?", abort=True)
    models.remove(name, paths.models)
    typer.echo(f"removed {name}")


def _served_folders(paths: Paths) -> set[Path]:
    """The model folders of the running tree; none when no tree runs."""
    from .watchdog.client import WatchdogClient
    from .watchdog.errors import NotRunning

    try:
        engines = WatchdogClient(paths).status().engines
    except NotRunning:
        return set()
    files = [paths.child_settings(f"engine-{engine.name}") for engine in engines]
    served = [json.loads(file.read_bytes())["model_path"] for file in files]
    return {Path(path).resolve() for path in served if path is not None}


def _model_row(model: ModelInfo) -> dict[str, Any]:
    return {**dataclasses.asdict(model), "path": str(model.path)}
