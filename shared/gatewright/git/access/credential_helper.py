"""The program that git asks for a password: it answers for one repository, and the proxy on the way to it, and for no other.

``python -I -S credential_helper.py DESCRIPTOR get``, as git's credential protocol has it. What it may answer lies in the memory
file that ``DESCRIPTOR`` is inherited from: no argument, no variable and no file of a disk holds it. It keeps nothing, forgets
nothing and imports nothing of the package, since it is started for every question.
"""

import json
import os
import sys

_MOST = 1 << 16
_EXACT = ("protocol", "host", "path")


def answer(question: str, known: str) -> str:
    """The lines that git is told; none for a question that is not exactly about what is ``known`` (JSON)."""
    asked = dict(line.split("=", 1) for line in question.splitlines() if "=" in line)
    for each in json.loads(known):
        user = each["username"]
        if asked.get("username", user) == user and all(asked.get(name, "") == each[name] for name in _EXACT):
            return f"username={user}\npassword={each['password']}\n"
    return ""


def main(argv: list[str]) -> int:
    """Answer ``get``; ``store`` and ``erase`` are of no concern here."""
    if len(argv) == 3 and argv[2] == "get":
        # From the beginning, wherever an earlier question left the descriptor that all of them share.
        known = os.pread(int(argv[1]), _MOST, 0).decode()
        sys.stdout.write(answer(sys.stdin.read(_MOST), known))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
