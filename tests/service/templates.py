"""Models that differ in their chat template."""

from __future__ import annotations

import json
import shutil
from pathlib import Path


def with_template(source: Path, folder: Path, template: str | None) -> Path:
    """A copy of the model in `source` with this chat template, or with none."""
    shutil.copytree(source, folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template}))
    return folder
