"""The contract that a request compiles to, where there is no run: for ``check`` and ``policy explain``."""

from __future__ import annotations

from gatewright.contracts import RequestTask, RunRequest, codec
from gatewright.contracts.vocabulary import Agent
from gatewright.services.pm.compiler import compile_contract

RUN = "run-examined"


def answer(question: bytes) -> bytes:
    """The contract of a run request, both as JSON. Raises MalformedError when the request is incomplete."""
    request = codec.decode(question, RunRequest)
    task = RequestTask(run_id=RUN, task_id=f"{RUN}.pm", baseline_commit=request.baseline_ref, request=request)
    return codec.encode(compile_contract(task, Agent(role="PM", agent_id="pm-1")))
