"""Which kinds of model the installed mlx-lm has code for, read from its files: importing its package loads MLX."""

from __future__ import annotations

import ast
import functools
import importlib.util
from pathlib import Path

from .errors import ModelError


def has_code_for(model_type: str, architectures: object) -> bool:
    """Whether mlx-lm can run a model whose configuration names this `model_type` and these `architectures`."""
    return (_mlx_lm_folder() / "models" / f"{_module_of(model_type, architectures)}.py").is_file()


def _module_of(model_type: str, architectures: object) -> str:
    """The name of the module that runs the model, as `_get_classes` in mlx_lm/utils.py finds it."""
    by_type, by_architecture = _aliases()
    for architecture in architectures if isinstance(architectures, list) else [architectures]:
        if isinstance(architecture, str) and (model_type, architecture) in by_architecture:
            return by_architecture[model_type, architecture]
    return by_type.get(model_type, model_type)


def _mlx_lm_folder() -> Path:
    spec = importlib.util.find_spec("mlx_lm")
    if spec is None or spec.origin is None:
        raise ModelError("mlx-lm is not installed beside Stoker; run `make install` again")
    return Path(spec.origin).parent


@functools.cache
def _aliases() -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """mlx-lm's two tables of aliases; an mlx-lm that has lost one has no aliases there."""
    tree = ast.parse((_mlx_lm_folder() / "utils.py").read_text(encoding="utf-8"))
    tables = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in {"MODEL_REMAPPING", "MODEL_ARCHITECTURE_REMAPPING"}
    }
    return tables.get("MODEL_REMAPPING", {}), tables.get("MODEL_ARCHITECTURE_REMAPPING", {})
