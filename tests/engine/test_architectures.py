"""The kinds of model that the installed mlx-lm runs, by its own aliases too."""

from __future__ import annotations

import mlx_lm.utils
import pytest

from stoker.engine.architectures import has_code_for


@pytest.mark.parametrize("model_type", ["llama", *mlx_lm.utils.MODEL_REMAPPING])
def test_every_type_that_mlx_lm_names_is_known(model_type: str) -> None:
    assert has_code_for(model_type, ["AnyForCausalLM"])


@pytest.mark.parametrize(("model_type", "architecture"), mlx_lm.utils.MODEL_ARCHITECTURE_REMAPPING)
def test_an_alias_can_hang_on_the_architecture(model_type: str, architecture: str) -> None:
    assert has_code_for(model_type, [architecture])
    assert has_code_for(model_type, architecture)


@pytest.mark.parametrize("architectures", [None, [], "Any", [1], {}])
def test_a_type_without_code_is_not_known_whatever_else_is_named(architectures: object) -> None:
    assert not has_code_for("nosuch", architectures)
