"""``python -m gatewright.services.pm.compile_request``: the contract that a request compiles to, where there is no run.

A run request on standard input, the task contract on standard output; exit code 1 and ``{"error": ...}`` when it is incomplete.
"""

from __future__ import annotations

import sys

import msgspec

from gatewright.contracts import RequestTask, RunRequest, codec
from gatewright.contracts.vocabulary import Agent
from gatewright.errors import MalformedError
from gatewright.services.pm.compiler import compile_contract

RUN = "run-examined"


def main() -> int:
    try:
        request = codec.decode(sys.stdin.buffer.read(), RunRequest)
        task = RequestTask(run_id=RUN, task_id=f"{RUN}.pm", baseline_commit=request.baseline_ref, request=request)
        contract = compile_contract(task, Agent(role="PM", agent_id="pm-1"))
    except MalformedError as error:
        faults = [fault._asdict() for fault in error.faults]
        document = {"error": {"kind": "MalformedError", "code": error.reason, "message": error.message, "faults": faults}}
        sys.stdout.buffer.write(msgspec.json.encode(document))
        return 1
    sys.stdout.buffer.write(codec.encode(contract))
    return 0


if __name__ == "__main__":
    sys.exit(main())
