"""Framed messages between the orchestrator and a worker, and between a worker and its cell.

A frame is a magic number, the protocol's version, the payload's length, the cell's nonce and a JSON object. What user
code writes to the descriptor by accident or on purpose does not carry the nonce and is passed over. Standard library
only; both ends import this module, so that the rule is written once.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Dict, Iterator, Optional, Tuple

VERSION = 1
"""Version of the frames and of the messages in them; recorded with every observation."""

NONCE_BYTES = 16
_MAGIC = b"\x89BTW"
_HEADER = struct.Struct(">4sBxxxI16s")
_LONGEST = 64 * 2**20


class ProtocolError(Exception):
    """The other end speaks another version."""


def new_nonce() -> bytes:
    """A nonce that nobody can guess."""
    return os.urandom(NONCE_BYTES)


def encode(message: Dict[str, Any], nonce: bytes) -> bytes:
    """One frame.

    Raises:
        ValueError: The message is longer than a frame may be.
    """
    payload = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    if len(payload) > _LONGEST:
        raise ValueError(f"a message of {len(payload)} bytes is too long")
    return _HEADER.pack(_MAGIC, VERSION, len(payload), nonce) + payload


class Decoder:
    """Takes bytes as they come and gives whole messages.

    Args:
        nonce: Only frames that carry it are messages; None takes every frame (for a peer that is trusted).
    """

    def __init__(self, nonce: Optional[bytes] = None) -> None:
        self._nonce = nonce
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Tuple[bytes, Dict[str, Any]]]:
        """The messages completed by ``data``, each with its nonce.

        Raises:
            ProtocolError: A frame with the right nonce has another version.
        """
        self._buffer += data
        while True:
            frame = self._next()
            if frame is None:
                return
            nonce, payload = frame
            message = _parse(payload)
            if message is not None:
                yield nonce, message

    def _next(self) -> Optional[Tuple[bytes, bytes]]:
        while True:
            start = self._buffer.find(_MAGIC)
            if start < 0:
                # Keep what could be the beginning of the magic number.
                del self._buffer[: max(0, len(self._buffer) - len(_MAGIC) + 1)]
                return None
            del self._buffer[:start]
            if len(self._buffer) < _HEADER.size:
                return None
            _, version, length, nonce = _HEADER.unpack_from(self._buffer)
            if length > _LONGEST or (self._nonce is not None and nonce != self._nonce):
                del self._buffer[:1]
                continue
            if version != VERSION:
                raise ProtocolError(f"the other end speaks protocol {version}, this one {VERSION}")
            if len(self._buffer) < _HEADER.size + length:
                return None
            payload = bytes(self._buffer[_HEADER.size : _HEADER.size + length])
            del self._buffer[: _HEADER.size + length]
            return nonce, payload


def _parse(payload: bytes) -> Optional[Dict[str, Any]]:
    try:
        message = json.loads(payload)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
