#!/usr/bin/env python3
"""An agent that speaks the Agent Client Protocol and does what its command line says, with any program's means.

Every word is an action: ``sh:COMMAND`` runs it unasked; ``ask:KIND,KIND:COMMAND`` asks for an edit first, with these kinds of
options, and runs it where it is allowed; ``wants:...`` asks for the command itself; ``defy:...`` asks for a command and runs it
whatever the answer is; ``say:TEXT``;
``raw:LINE``; ``flood``; ``hang``; ``exit``; ``end:REASON``. Then the turn ends. ``recall`` says how many orders the session has
had, which it keeps in a file of its home and goes on with when it is asked to; ``forget`` leaves when it is asked to; ``mute``
does not tell again what was said.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

MEMORY = Path(os.environ["HOME"]) / ".program" / "sessions" / "s.jsonl"


def write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def send(message: dict[str, object]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}))


def update(**fields: object) -> None:
    send({"method": "session/update", "params": {"sessionId": "s", "update": fields}})


def ask(number: int, kind: str, kinds: str, command: str = "") -> bool:
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds.split(",") if kind]
    call: dict[str, object] = {"toolCallId": f"c{number}", "title": "a harmless thing", "kind": kind}
    call |= {"rawInput": {"command": command}} if command else {}
    params = {"sessionId": "s", "toolCall": call, "options": options}
    send({"id": number, "method": "session/request_permission", "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return "allow" in str(message.get("result", {}).get("outcome", {}).get("optionId"))
    return False


def remember(order: str = "") -> int:
    """One more order in the file of the session; how many there are."""
    MEMORY.parent.mkdir(parents=True, exist_ok=True)
    with MEMORY.open("a") as file:
        file.write(f"{json.dumps(order)}\n" if order else "")
    return len(MEMORY.read_text().splitlines())


def load(number: object) -> None:
    if "forget" in sys.argv:
        os._exit(3)
    if "mute" not in sys.argv and MEMORY.exists():
        for order in MEMORY.read_text().splitlines():
            update(sessionUpdate="user_message_chunk", content={"type": "text", "text": json.loads(order)})
    send({"id": number, "result": {}} if MEMORY.exists() else {"id": number, "error": {"code": 1, "message": "no session"}})


def run(command: str) -> None:
    subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)


def act(number: int, word: str) -> str:
    what, _, rest = word.partition(":")
    if what == "sh":
        run(rest)
    elif what in ("ask", "wants", "defy"):
        kinds, _, command = rest.partition(":")
        allowed = ask(number, "edit" if what == "ask" else "execute", kinds, command if what == "wants" else "")
        if allowed or what == "defy":
            run(command)
    elif what == "recall":
        update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": f"I recall {remember()} order(s)"})
    elif what == "say":
        update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": rest})
    elif what == "raw":
        write(rest)
    elif what == "flood":
        while True:
            os.write(1, b"x" * 65536)
    elif what == "hang":
        time.sleep(10**6)
    elif what == "exit":
        os._exit(int(rest or 0))
    elif what == "end":
        return rest
    return ""


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            info = {"protocolVersion": 1, "agentInfo": {"name": "program", "version": "1.0"}}
            can = {"agentCapabilities": {"loadSession": True}} if "recall" in sys.argv else {}
            send({"id": number, "result": {**info, **can}})
        elif method == "session/load":
            load(number)
        elif method == "session/new":
            send({"id": number, "result": {"sessionId": "s"}})
        elif method == "session/prompt":
            reason = ""
            if "recall" in sys.argv:
                remember(message["params"]["prompt"][0]["text"])
            for place, word in enumerate(sys.argv[1:]):
                reason = act(place, word) or reason
            send({"id": number, "result": {"stopReason": reason or "end_turn"}})


if __name__ == "__main__":
    main()
