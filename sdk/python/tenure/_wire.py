"""Lines of the host protocol."""

from __future__ import annotations

import base64
import json
from typing import Any

VERSION = 1
LINE_MAX = 1 << 20
MILLIS_MAX = (1 << 53) - 1


def pack(message: dict[str, Any]) -> bytes:
    """The line of a message. Raises ValueError if it is too long."""
    line = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode(errors="replace") + b"\n"
    if len(line) > LINE_MAX:
        raise ValueError(f"a message of {len(line)} bytes does not fit into a line of {LINE_MAX}")
    return line


def data(value: bytes | str) -> bytes:
    """The bytes of a value. Raises TypeError if it is neither bytes nor text."""
    if isinstance(value, str):
        # As `Job.key` has been decoded.
        return value.encode(errors="surrogateescape")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"bytes or text are needed, not {type(value).__name__}")


def millis(seconds: float) -> int:
    """Whole milliseconds: none for a time that is negative or no number, and at most `MILLIS_MAX`."""
    return round(min(max(seconds * 1000, 0), MILLIS_MAX)) if seconds == seconds else 0


def put(message: dict[str, Any], name: str, value: bytes | str) -> dict[str, Any]:
    """Puts bytes into a message: as text if they are UTF-8, else in base 64."""
    inside = data(value)
    try:
        message[name] = inside.decode()
    except UnicodeDecodeError:
        message[name + "64"] = base64.b64encode(inside).decode()
    return message


def take(message: dict[str, Any], name: str) -> bytes | None:
    """Takes bytes out of a message. None if there are none."""
    text = message.get(name)
    if text is not None:
        return str(text).encode()
    coded = message.get(name + "64")
    return None if coded is None else base64.b64decode(coded)
