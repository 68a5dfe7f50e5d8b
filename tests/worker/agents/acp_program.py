#!/usr/bin/env python3
"""An agent that speaks the Agent Client Protocol and does what its command line says, with any program's means.

Every word is an action: ``sh:COMMAND`` runs it unasked; ``ask:KIND,KIND:COMMAND`` asks for an edit first, with these kinds of
options, and runs it where it is allowed; ``defy:...`` asks for a command and runs it whatever the answer is; ``say:TEXT``;
``raw:LINE``; ``flood``; ``hang``; ``exit``; ``end:REASON``. Then the turn ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time


def write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def send(message: dict[str, object]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}))


def update(**fields: object) -> None:
    send({"method": "session/update", "params": {"sessionId": "s", "update": fields}})


def ask(number: int, kind: str, kinds: str) -> bool:
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds.split(",") if kind]
    call = {"toolCallId": f"c{number}", "title": "a harmless thing", "kind": kind}
    params = {"sessionId": "s", "toolCall": call, "options": options}
    send({"id": number, "method": "session/request_permission", "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return "allow" in str(message.get("result", {}).get("outcome", {}).get("optionId"))
    return False


def run(command: str) -> None:
    subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)


def act(number: int, word: str) -> str:
    what, _, rest = word.partition(":")
    if what == "sh":
        run(rest)
    elif what in ("ask", "defy"):
        kinds, _, command = rest.partition(":")
        if ask(number, "edit" if what == "ask" else "execute", kinds) or what == "defy":
            run(command)
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
        os._exit(0)
    elif what == "end":
        return rest
    return ""


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            send({"id": number, "result": {"protocolVersion": 1, "agentInfo": {"name": "program", "version": "1.0"}}})
        elif method == "session/new":
            send({"id": number, "result": {"sessionId": "s"}})
        elif method == "session/prompt":
            reason = ""
            for place, word in enumerate(sys.argv[1:]):
                reason = act(place, word) or reason
            send({"id": number, "result": {"stopReason": reason or "end_turn"}})


if __name__ == "__main__":
    main()
