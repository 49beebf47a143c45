"""Who may come: keys that clients show, known here only by their hashes.

The file has a line a key, `NAME HASH`, where the hash is the key's SHA-256 in hexadecimal; empty lines and those that
begin with `#` do not count. Keys are long and random, so a plain hash is enough: nobody can guess their way back.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from pathlib import Path

from .errors import InvalidApiKey

_LINE = re.compile(r"(\S+)\s+([0-9a-f]{64})")


class KeyFileError(Exception):
    """A file of keys that cannot be used; the message names it and the way out. Ends the process."""


class Keys:
    """The keys of one file, by name."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = dict(hashes)

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Raises `KeyFileError`."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise KeyFileError(f"cannot read the keys in {path}: {error}; see `server.api_keys`") from error
        hashes: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line.strip())
            if match is None:
                # The line may hold a key by mistake, so it is not repeated.
                raise KeyFileError(f"line {number} of {path} is not a name and a SHA-256 in hexadecimal; mend it")
            hashes[match[1]] = match[2]
        if not hashes:
            raise KeyFileError(f"{path} has no key, so nobody could come in; add one, or unset `server.api_keys`")
        return cls(hashes)

    def check(self, headers: Mapping[str, str]) -> str:
        """The name of the key that is shown, as a bearer token or as `x-api-key`. Raises `InvalidApiKey`."""
        shown = headers.get("x-api-key") or _bearer(headers.get("Authorization", ""))
        if not shown:
            raise InvalidApiKey("no API key; send one as `Authorization: Bearer` or `x-api-key`")
        digest = hashlib.sha256(shown.encode()).hexdigest()
        # All are compared, each in constant time: how long it takes tells nothing about any of them.
        names = [name for name, known in self._hashes.items() if hmac.compare_digest(digest, known)]
        if not names:
            raise InvalidApiKey("this API key is not known here; ask who runs this server for one")
        return names[0]


def _bearer(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
