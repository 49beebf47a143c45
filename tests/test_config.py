"""Reading the configuration, and what is said about a bad one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.config import MAX_SOCKET_PATH_BYTES, Config, ConfigError, Paths, known_keys, load


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path)


def complaint(paths: Paths, text: str) -> str:
    paths.config.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(None, paths)
    return str(caught.value)


def test_without_a_file_everything_has_its_default(paths: Paths) -> None:
    assert load(None, paths) == Config()


def test_the_file_of_the_home_is_read(paths: Paths) -> None:
    paths.config.write_text("[server]\nport = 9\n[watchdog.restart]\nintensity = 2", encoding="utf-8")
    config = load(None, paths)
    assert (config.server.port, config.watchdog.restart.intensity) == (9, 2)


def test_the_command_line_wins_over_the_file(paths: Paths) -> None:
    paths.config.write_text("[server]\nport = 9\nhost = '::1'", encoding="utf-8")
    config = load(None, paths, {"server": {"port": 10}, "engine": {"model": "x/y"}})
    assert (config.server.port, config.server.host, config.engine.model) == (10, "::1", "x/y")


def test_a_named_file_that_is_missing_is_an_error(paths: Paths) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*absent\.toml"):
        load(paths.home / "absent.toml", paths)


def test_broken_toml_is_told_with_its_place(paths: Paths) -> None:
    assert "is not valid TOML" in complaint(paths, "[server\n")


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("[server]\nprot = 1", "server.port"),
        ("[sever]\nport = 1", "server"),
        ("[engine]\nmax_runing = 1", "engine.max_running"),
        ("[watchdog.restart]\nintensty = 1", "watchdog.restart.intensity"),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest_one(paths: Paths, text: str, nearest: str) -> None:
    assert f"did you mean `{nearest}`?" in complaint(paths, text)


def test_a_key_like_no_other_is_told_with_where_to_look(paths: Paths) -> None:
    assert "unknown key `zzz`; see `stoker config schema`" in complaint(paths, "zzz = 1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[server]\nport = 65536", "`server.port` = 65536: input should be less than or equal to 65535"),
        ("[server]\nport = 'x'", "`server.port` = 'x': input should be a valid integer"),
        ("[engine]\nkind = 'cuda'", "`engine.kind` = 'cuda': input should be 'mlx' or 'simulated'"),
        ("[server]\nkeepalive_s = inf", "`server.keepalive_s` = inf: input should be a finite number"),
        ("[watchdog.restart]\nbackoff_jitter = 2", "`watchdog.restart.backoff_jitter` = 2"),
    ],
)
def test_a_bad_value_is_told_with_its_key(paths: Paths, text: str, told: str) -> None:
    assert told in complaint(paths, text)


def test_an_address_that_others_can_reach_needs_keys(paths: Paths) -> None:
    told = complaint(paths, "[server]\nhost = '0.0.0.0'")
    assert "`server`: `host` = 0.0.0.0 lets other machines in, and no `api_keys` say who may come" in told
    paths.config.write_text("[server]\nhost = '0.0.0.0'\napi_keys = '~/keys'", encoding="utf-8")
    assert load(None, paths).server.api_keys == Path.home() / "keys"
    paths.config.write_text("[server]\nhost = 'localhost'", encoding="utf-8")
    assert load(None, paths).server.api_keys is None


def test_a_file_of_keys_is_found_from_anywhere(paths: Paths) -> None:
    assert "absolute path" in complaint(paths, "[server]\napi_keys = 'keys'")


def test_every_problem_is_told_at_once(paths: Paths) -> None:
    assert complaint(paths, "[server]\nport = -1\nprot = 1").count("; ") >= 1


def test_every_key_is_documented() -> None:
    schema = Config.model_json_schema()
    tables = {"": schema, **schema["$defs"]}
    # A table without words of its own takes those of its class.
    silent = [
        (table, key)
        for table in tables
        for key, value in tables[table]["properties"].items()
        if not {"description", "$ref"} & set(value)
    ]
    assert silent == []


def test_every_key_of_every_table_is_known() -> None:
    assert {"server.port", "watchdog.restart.intensity", "engine.simulated.faults"} <= set(known_keys())


def test_the_socket_of_a_long_home_is_short_and_its_own(tmp_path: Path) -> None:
    first, second = (Paths(tmp_path / ("long" * 30) / name).socket("default") for name in ("a", "b"))
    assert first != second
    assert max(len(os.fsencode(first)), len(os.fsencode(second))) <= MAX_SOCKET_PATH_BYTES


def test_the_home_is_the_environments_or_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    assert Paths.from_environment().home == tmp_path
    monkeypatch.delenv("STOKER_HOME")
    assert Paths.from_environment().home == Path.home() / ".stoker"
