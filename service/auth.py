"""Who may come: keys that clients show, known here only by their hashes.

The file has a line a key, `NAME HASH`, where the hash is the key's SHA-256 in hexadecimal, and behind it what is said
of the key, if anything: `requests=4`, `tokens_per_minute=100000`, `priority=batch`. Empty lines and those that begin
with `#` do not count. Keys are long and random, so a plain hash is enough: nobody can guess their way back.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from ..engine.protocol import Priority
from .allowance import Allowance
from .errors import InvalidApiKey

_LINE = re.compile(
    r"(\S+)\s+([0-9a-f]{64})((?:\s+(?:(?:requests|tokens_per_minute)=[1-9][0-9]*|priority=(?:interactive|batch)))*)"
)


class KeyFileError(Exception):
    """A file of keys that cannot be used; the message names it and the way out. Ends the process."""


@dataclass(frozen=True)
class Key:
    """One key of the file."""

    name: str
    sha256: str
    allowance: Allowance
    priority: Priority


SHOWN = web.RequestKey("key", Key)
"""The key that a request showed."""


class Keys:
    """The keys of one file."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = keys

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Raises `KeyFileError`."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise KeyFileError(f"cannot read the keys in {path}: {error}; see `server.api_keys`") from error
        keys: list[Key] = []
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line.strip())
            if match is None:
                # The line may hold a key by mistake, so it is not repeated.
                told = "is not a name, a SHA-256 in hexadecimal and perhaps bounds such as `requests=4`; mend it"
                raise KeyFileError(f"line {number} of {path} {told}")
            said = dict(each.split("=") for each in match[3].split())
            priority = Priority(said.pop("priority", Priority.INTERACTIVE))
            allowance = Allowance(**{name: int(most) for name, most in said.items()})
            keys.append(Key(match[1], match[2], allowance, priority))
        if not keys:
            raise KeyFileError(f"{path} has no key, so nobody could come in; add one, or unset `server.api_keys`")
        return cls(keys)

    def check(self, headers: Mapping[str, str]) -> Key:
        """The key that is shown, as a bearer token or as `x-api-key`. Raises `InvalidApiKey`."""
        shown = headers.get("x-api-key") or _bearer(headers.get("Authorization", ""))
        if not shown:
            raise InvalidApiKey("no API key; send one as `Authorization: Bearer` or `x-api-key`")
        digest = hashlib.sha256(shown.encode()).hexdigest()
        # All are compared, each in constant time: how long it takes tells nothing about any of them.
        matching = [key for key in self._keys if hmac.compare_digest(digest, key.sha256)]
        if not matching:
            raise InvalidApiKey("this API key is not known here; ask who runs this server for one")
        return matching[0]


def _bearer(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
