"""From a TOML file to settings; a bad key or value raises `ConfigError` with its name and what is wrong with it."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .everything import Config
from .paths import Paths
from .section import ConfigError, Section


def load(path: Path | None, paths: Paths, overrides: dict[str, dict[str, Any]] | None = None) -> Config:
    """Read the file at `path`, or `$STOKER_HOME/stoker.toml` if it exists, or the defaults.

    `overrides` are command-line values by section and key; they win over the file. Raises `ConfigError`.
    """
    source = path or (paths.config if paths.config.exists() else None)
    values: dict[str, Any] = {}
    if source is not None:
        try:
            values = tomllib.loads(source.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(
                f"{source} is not valid TOML: {error}. Mend that line, or start without the file."
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the configuration {source}: {error}") from error
    for section, keys in (overrides or {}).items():
        target = values.setdefault(section, {})
        if not isinstance(target, dict):
            raise ConfigError(f"{source}: `{section}` must be a table, as in `[{section}]`")
        target.update(keys)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(error, source)) from error


def _explain(error: ValidationError, source: Path | None) -> str:
    """All problems of a configuration in one line a problem."""
    where = f"{source}: " if source is not None else ""
    return "; ".join(f"{where}{_explain_one(problem)}" for problem in error.errors(include_url=False))


def _explain_one(problem: Any) -> str:
    location = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        nearest = difflib.get_close_matches(location, known_keys(), n=1, cutoff=0.5)
        hint = f"; did you mean `{nearest[0]}`?" if nearest else "; see `stoker config schema` for all keys"
        return f"unknown key `{location}`{hint}"
    message = problem["msg"][0].lower() + problem["msg"][1:]
    # A secret that was written where only its place should be must not go into a log.
    if isinstance(problem["input"], dict) or problem["type"] == "bare_secret":
        return f"`{location}`: {message}"
    return f"`{location}` = {problem['input']!r}: {message}"


def known_keys(section: type[Section] = Config, prefix: str = "") -> list[str]:
    """Every valid dotted key, tables included."""
    keys: list[str] = []
    for name, field in section.model_fields.items():
        keys.append(prefix + name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            keys.extend(known_keys(field.annotation, f"{prefix}{name}."))
    return keys
