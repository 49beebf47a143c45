"""What can go wrong with an engine, one class a cause."""

from __future__ import annotations


class EngineError(Exception):
    """Base of every error that this folder raises on purpose."""


class FrameError(EngineError):
    """Bytes on the socket that are not a frame of the protocol; the connection cannot go on."""


class ModelError(EngineError):
    """A model that cannot be used; the message names it and the way out."""


class GrammarError(EngineError):
    """A grammar that cannot be used, or an output that does not follow one; the message says where it fails."""


class EngineUnavailable(EngineError):
    """No engine is ready to take a request right now."""


class BlockDamaged(EngineError):
    """A file of the prefix cache is not the block that its name says; it is removed, and the block is a miss."""
