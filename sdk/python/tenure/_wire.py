"""Lines of the host protocol."""

from __future__ import annotations

import base64
import json
from typing import Any

VERSION = 1
LINE_MAX = 1 << 20


def pack(message: dict[str, Any]) -> bytes:
    """The line of a message. Raises ValueError if it is too long."""
    line = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    if len(line) > LINE_MAX:
        raise ValueError(f"a message of {len(line)} bytes does not fit into a line of {LINE_MAX}")
    return line


def put(message: dict[str, Any], name: str, data: bytes | str) -> dict[str, Any]:
    """Puts bytes into a message: as text if they are UTF-8, else in base 64."""
    if isinstance(data, str):
        message[name] = data
        return message
    try:
        message[name] = bytes(data).decode()
    except UnicodeDecodeError:
        message[name + "64"] = base64.b64encode(data).decode()
    return message


def take(message: dict[str, Any], name: str) -> bytes | None:
    """Takes bytes out of a message. None if there are none."""
    text = message.get(name)
    if text is not None:
        return str(text).encode()
    coded = message.get(name + "64")
    return None if coded is None else base64.b64decode(coded)
