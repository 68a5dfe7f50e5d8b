"""The runs of the benchmarks of agents."""

from __future__ import annotations

from pathlib import Path

from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Budget, Executor, Repository, TimeoutRetry

#: Where its change lies.
PATH = "src/part0"


def agent_request(repository: Path, model: str, paths: tuple[str, ...], budget: Budget | None = None) -> RunRequest:
    """One attempt of Codex with ``model``."""
    return RunRequest(
        request="add a file",
        repository=Repository(url=str(repository)),
        requested_by="bench",
        allowed_paths=paths,
        acceptance_tests=(AcceptanceTest(name="trivial", cmd="true", must_pass=True),),
        executor=Executor(kind="agent", agent="codex", model=model),
        budget=budget,
        timeout_retry=TimeoutRetry(timeout_sec=600.0, max_retries=0, retry_backoff_sec=0),
    )
