"""The page's own files, read once, with the headers that keep everything else out of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

FOLDER = Path(__file__).parent / "static"
INDEX = "index.html"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
GUARDS = {
    # Scripts and styles from here alone, no frame around it, no form that posts: nothing that it shows can act.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class PageFile:
    """One of them, as it is served."""

    content: bytes
    content_type: str
    etag: str


def read_files() -> dict[str, PageFile]:
    """By name."""
    return {file.name: _read(file) for file in sorted(FOLDER.iterdir()) if file.suffix in _TYPES}


def answer(file: PageFile, request: web.Request) -> web.Response:
    """The file, or that the browser's copy is still right."""
    known = request.if_none_match or ()
    fresh = any(tag.value == file.etag for tag in known)
    response = web.Response(headers=GUARDS, status=304) if fresh else web.Response(body=file.content, headers=GUARDS)
    if not fresh:
        response.content_type, response.charset = file.content_type, "utf-8"
    response.etag = file.etag
    response.headers["Cache-Control"] = "no-cache"
    return response


def _read(file: Path) -> PageFile:
    content = file.read_bytes()
    return PageFile(content, _TYPES[file.suffix], hashlib.sha256(content).hexdigest()[:16])
