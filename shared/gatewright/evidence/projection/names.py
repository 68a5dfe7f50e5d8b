"""Lists of changed paths as text, one per line, quoted as git quotes them (``core.quotePath`` on)."""

from __future__ import annotations

_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_QUOTED = {byte: _ESCAPES.get(byte, f"\\{byte:03o}") for byte in range(256) if byte < 32 or byte > 126 or byte in _ESCAPES}
_TABLE = [_QUOTED.get(byte, chr(byte)) for byte in range(256)]


def quote_path(path: bytes) -> str:
    """Return ``path`` as git prints it: C-quoted when it has a control character, a quote, a backslash or a byte above 126."""
    if any(byte in _QUOTED for byte in path):
        return '"' + "".join(_TABLE[byte] for byte in path) + '"'
    return path.decode("ascii")


def name_list(names: bytes) -> bytes:
    """Return the output of ``git diff --name-only`` for these paths: one per line, quoted, sorted by bytes.

    Args:
        names: the paths, each terminated by a NUL.
    """
    paths = sorted(set(names.split(b"\0")) - {b""})
    return "".join(f"{quote_path(path)}\n" for path in paths).encode("ascii")
