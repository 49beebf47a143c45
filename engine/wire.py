"""Frames on the engine's Unix socket: a 4-byte big-endian length, then one msgpack-encoded word of the protocol."""

from __future__ import annotations

import asyncio
import struct
from typing import Generic, TypeVar

import msgspec

from .errors import FrameError
from .protocol import FromEngine, ToEngine

MAX_FRAME_BYTES = 64 * 1024 * 1024

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()

T = TypeVar("T")


def encode(word: ToEngine | FromEngine) -> bytes:
    """One frame, length included. Raises `FrameError` past `MAX_FRAME_BYTES`."""
    body = _encoder.encode(word)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {len(body)} bytes is over the bound of {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


def say(writer: asyncio.StreamWriter, word: ToEngine | FromEngine) -> None:
    """Send a word. Into a connection that is already gone it is lost; who reads from it learns of that."""
    frame = encode(word)
    # asyncio lets one write into a closed transport, uvloop raises RuntimeError.
    if not writer.transport.is_closing():
        writer.write(frame)


class FrameReader(Generic[T]):
    """Reads words of one direction from a stream."""

    def __init__(self, stream: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[T]) -> None:
        self._stream = stream
        self._decoder = decoder

    async def read(self) -> T | None:
        """The next word, or None when the peer closed between two frames.

        Raises `FrameError` on a frame that is cut short, too long or not a word of the protocol.
        """
        try:
            head = await self._stream.readexactly(_LENGTH.size)
            (length,) = _LENGTH.unpack(head)
            if length > MAX_FRAME_BYTES:
                raise FrameError(f"the peer announced a frame of {length} bytes, over the bound of {MAX_FRAME_BYTES}")
            return self._decoder.decode(await self._stream.readexactly(length))
        except asyncio.IncompleteReadError as error:
            if not error.partial and error.expected == _LENGTH.size:
                return None
            raise FrameError(
                f"the peer closed inside a frame ({len(error.partial)} of {error.expected} bytes)"
            ) from error
        except ConnectionError:
            return None
        except msgspec.MsgspecError as error:
            raise FrameError(f"not a word of the engine protocol: {error}") from error


def reader_of_requests(stream: asyncio.StreamReader) -> FrameReader[ToEngine]:
    """For the engine's side of the socket."""
    return FrameReader(stream, msgspec.msgpack.Decoder(ToEngine))


def reader_of_events(stream: asyncio.StreamReader) -> FrameReader[FromEngine]:
    """For the client's side of the socket."""
    return FrameReader(stream, msgspec.msgpack.Decoder(FromEngine))
