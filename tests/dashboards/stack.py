"""`docker-compose.yml` as Compose would read it, and the files that it mounts laid out as a container sees them."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
PROVISIONING = ROOT / "dashboards" / "provisioning"
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


@dataclass(frozen=True)
class Mount:
    """One line of a service's volumes: where it comes from, where it goes, and whether it can be written to."""

    source: str
    target: str
    read_only: bool

    @property
    def file(self) -> Path | None:
        """A file or folder of this tree; None is a volume of Docker's."""
        return ROOT / self.source if self.source.startswith("./") else None


def stack(**variables: str) -> dict[str, Any]:
    """The whole file with variables filled in."""
    text = _VARIABLE.sub(lambda found: variables.get(found[1], found[2]), (ROOT / "docker-compose.yml").read_text())
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def mounts(service: dict[str, Any]) -> list[Mount]:
    """What a service mounts."""
    parts = (line.split(":") for line in service.get("volumes", ()))
    return [Mount(source, target, mode == ["ro"]) for source, target, *mode in parts]


def lay_out(service: str, below: str, folder: Path) -> None:
    """Copy the files that a service mounts below a directory of its container."""
    for mount in mounts(stack()["services"][service]):
        if mount.file is not None and mount.target.startswith(below):
            place = folder / Path(mount.target).relative_to(below)
            if mount.file.is_dir():
                shutil.copytree(mount.file, place, dirs_exist_ok=True)
            else:
                shutil.copy(mount.file, place)
