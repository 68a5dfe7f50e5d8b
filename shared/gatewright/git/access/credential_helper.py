"""The credential helper that git starts: it answers for one repository and its proxy, and for no other.

Called as ``python -I -S credential_helper.py DESCRIPTOR get``, by git's credential protocol. The credentials are in the
memory file inherited as ``DESCRIPTOR``, never in an argument, a variable or a file on disk. The helper stores and erases
nothing, and imports nothing of the package, because git starts it for every request.
"""

import json
import os
import sys

_MOST = 1 << 16
_EXACT = ("protocol", "host", "path")


def answer(question: str, known: str) -> str:
    """Return the lines for git's request; none if the request does not match an entry of ``known`` (JSON) exactly."""
    asked = dict(line.split("=", 1) for line in question.splitlines() if "=" in line)
    for each in json.loads(known):
        user = each["username"]
        if asked.get("username", user) == user and all(asked.get(name, "") == each[name] for name in _EXACT):
            return f"username={user}\npassword={each['password']}\n"
    return ""


def main(argv: list[str]) -> int:
    """Answer ``get``; ``store`` and ``erase`` are of no concern here."""
    if len(argv) == 3 and argv[2] == "get":
        # Read from the start: all helpers share the descriptor, and an earlier request may have moved its offset.
        known = os.pread(int(argv[1]), _MOST, 0).decode()
        sys.stdout.write(answer(sys.stdin.read(_MOST), known))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
