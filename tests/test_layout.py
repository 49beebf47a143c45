"""The tree keeps its shape: imports go one way, MLX stays in its process, and what is written about it is true."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker import config

ROOT = Path(__file__).parent.parent
ROLES = ("config", "engine", "service", "watchdog", "soak", "dashboards", "alerts")
SOURCES = sorted([*ROOT.glob("*.py"), *(file for role in ROLES for file in (ROOT / role).rglob("*.py"))])
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# What a role may import beside itself. Of the engine, only what never loads MLX is open to others.
SHARED = {"stoker", "stoker.config", "stoker.process"}
ENGINE_WORDS = {f"stoker.engine.{name}" for name in ("protocol", "wire", "client", "errors")}
ENGINE_FOR_PARENTS = ENGINE_WORDS | {f"stoker.engine.{name}" for name in ("models", "conversion", "blas", "progress")}
OPEN_TO = {
    "config": set(),
    "process": {"stoker.config"},
    "engine": SHARED,
    "service": SHARED | ENGINE_WORDS,
    "watchdog": SHARED | ENGINE_FOR_PARENTS | {"stoker.service.metrics"},
    "soak": SHARED | ENGINE_FOR_PARENTS | {"stoker.service.metrics"},
    "dashboards": {"stoker.service.metrics", "stoker.service.telemetry"},
    "alerts": SHARED | {"stoker.service.metrics"},
    "cli": SHARED | ENGINE_FOR_PARENTS | {"stoker.alerts.errors"},
}
FOLDERS_OPEN_TO = {
    "watchdog": ("stoker.alerts",),
    "soak": ("stoker.watchdog",),
    "cli": ("stoker.watchdog", "stoker.soak", "stoker.dashboards"),
}


def role_of(file: Path) -> str:
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(("stoker", *(part for part in parts if part != "__init__")))


def imports_of(file: Path) -> Iterator[str]:
    """Every module that a file imports, by its full name; what is imported from a package counts as a module of it."""
    package = module_of(file).split(".")
    if file.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            submodules = [f"{origin}.{alias.name}" for alias in node.names]
            modules = [name for name in submodules if is_module(name)]
            yield from modules or [origin]


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split(".")[1:])
    return name.startswith("stoker.") and (path.with_suffix(".py").is_file() or path.is_dir())


def names_in(text: str) -> list[str]:
    """What a page names in backticks and links that looks like a file or folder of this tree."""
    named = re.findall(r"`([\w./-]+)`|\]\(([\w./-]+)\)", text)
    candidates = [quoted or linked for quoted, linked in named]
    return [name for name in candidates if "/" in name or name.endswith((".py", ".md", ".toml", ".lock"))]


@pytest.mark.parametrize("file", SOURCES, ids=module_of)
def test_imports_go_only_down(file: Path) -> None:
    role = role_of(file)
    own = f"stoker.{role}"
    allowed = OPEN_TO.get(role, set())
    for name in imports_of(file):
        inside = name == own or name.startswith((f"{own}.", *(f"{each}." for each in FOLDERS_OPEN_TO.get(role, ()))))
        assert not name.startswith("stoker") or inside or name in allowed, f"{module_of(file)} imports {name}"


@pytest.mark.parametrize("file", SOURCES, ids=module_of)
def test_only_the_engine_imports_mlx(file: Path) -> None:
    if role_of(file) != "engine":
        assert not [name for name in imports_of(file) if name.split(".")[0] in {"mlx", "mlx_lm"}]


@pytest.mark.parametrize("file", [*SOURCES, *TESTS], ids=lambda file: str(file.relative_to(ROOT)))
def test_every_module_says_what_it_is(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) or not tree.body


def test_every_process_but_the_engine_starts_without_mlx() -> None:
    names = [
        *sorted(ENGINE_FOR_PARENTS),
        "stoker.cli",
        *(module_of(file) for file in SOURCES if starts_no_engine(file)),
    ]
    script = (
        f"import sys, importlib; [importlib.import_module(name) for name in {names}]; print('mlx.core' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def starts_no_engine(file: Path) -> bool:
    """And can be imported: alembic's `env.py` is run by alembic alone."""
    return role_of(file) in {"service", "watchdog", "soak", "alerts"} and file.name not in {"__main__.py", "env.py"}


def test_the_example_configuration_is_the_defaults() -> None:
    example = ROOT / "stoker.example.toml"
    command = (
        "`.venv/bin/python -c 'from stoker.config import example; print(example(), end=\"\")' > stoker.example.toml`"
    )
    assert example.read_text(encoding="utf-8") == config.example(), f"write it anew with {command}"
    assert config.load(example, config.Paths(ROOT)) == config.Config()


def test_the_page_of_all_settings_is_the_defaults() -> None:
    command = (
        "`.venv/bin/python -c 'from stoker.config import reference; print(reference(), end=\"\")' "
        "> docs/configuration.md`"
    )
    page = ROOT / "docs" / "configuration.md"
    assert page.read_text(encoding="utf-8") == config.reference(), f"write it anew with {command}"


def test_the_example_configuration_names_every_key() -> None:
    example = (ROOT / "stoker.example.toml").read_text(encoding="utf-8")
    for key in config.known_keys():
        assert re.search(rf"(^|\W){re.escape(key.rpartition('.')[2])}\W", example), key


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    for name in names_in(page.read_text(encoding="utf-8")):
        if name.startswith(("/", "org/", "mlx-community/", ".venv/")):
            continue
        assert (ROOT / name).exists() or (page.parent / name).exists(), f"{page.name} names {name}"


def test_nothing_names_the_machine_it_was_written_on() -> None:
    # Put together here, so that this file does not name them either.
    banned = ["/" + "work/", "/" + "root/", "py" + "pi.org", "python" + "hosted", "file:" + "///"]
    pages = [*ROOT.glob("*.*"), ROOT / "Makefile", ROOT / ".ci" / "run", *(ROOT / "docs").rglob("*.md")]
    written = [page for page in pages if page.is_file() and page.name != ".git"]  # a file in a linked worktree
    for file in [*SOURCES, *TESTS, *written]:
        text = file.read_text(encoding="utf-8")
        assert not [word for word in banned if word in text], file
