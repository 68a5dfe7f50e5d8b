"""Asks a model once, through the gateway, for whole files, and takes its reply as a recorded one is taken."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from gatewright.budgets import command_seconds
from gatewright.models.cassettes import Playback
from gatewright.models.policy import LoadedModels
from gatewright.order_artifacts.canonical_memory import read_memory
from gatewright.prompts.library import PromptLibrary
from gatewright.prompts.prompt import fence_text
from gatewright.prompts.worker_brief import RepositoryAccess
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.worker.agents.brief import brief, earlier_results
from gatewright.services.worker.agents.conventions import Conventions, read_conventions
from gatewright.services.worker.agents.earlier import earlier_round
from gatewright.services.worker.agents.record import PROMPT
from gatewright.services.worker.executors.blocked_file import may_ask
from gatewright.services.worker.executors.given_answers import REPLY_LOG, change_of
from gatewright.services.worker.executors.model_calls import gateway_for, kept_calls, model_for
from gatewright.services.worker.executors.port import ExecutionFailure, ExecutionResult, Job
from gatewright.services.worker.executors.text_reply import ask_text, text_api_of, why_incomplete
from gatewright.structured.asking import Turn

#: Bytes of the files below the allowed paths that the model is shown.
_SHOWN_BYTES: Final = 400_000


class ModelExecutor:
    """One call an attempt: no tools, no loop. ``pool`` chooses the worker's route; ``playback``: see ``AgentHost``.

    ``conventions``: the model is given those of the repository.
    """

    def __init__(
        self,
        models: LoadedModels,
        scanner: SecretScanner,
        pool: str | None = None,
        library: PromptLibrary | None = None,
        playback: Playback | None = None,
        *,
        conventions: bool = False,
    ) -> None:
        self._conventions = conventions
        self._playback = playback
        self._library = library or PromptLibrary()
        self._models = models
        self._scanner = scanner
        self._pool = pool

    async def execute(self, job: Job) -> ExecutionResult:
        """Raises ExtractionError (``reply_not_usable``), and what ``AgentExecutor.execute`` does of models."""
        policy = self._models.policy
        model = model_for(policy, job.contract, None, pool=self._pool)
        gateway = await asyncio.to_thread(gateway_for, self._models, job, model, pool=self._pool, playback=self._playback)
        earlier = await earlier_round(job.contract, job.artifacts)
        memory = await read_memory(job.contract.inputs.artifacts, job.artifacts)
        asks = await may_ask(job.contract, job.mirror, job.baseline)
        data = [*await earlier_results(job.contract, job.artifacts), *await _describe_files(job)]
        version = gateway.recording.brief
        conventions = Conventions()
        if version > 1 and self._conventions:
            conventions = await read_conventions(job.mirror, job.baseline, job.contract.allowed_paths, self._scanner)
        access = RepositoryAccess(conventions=conventions.blocks())
        order = brief(
            self._library, job.contract, earlier, "files", version=version, access=access, data=data, memory=memory, asks=asks
        ).in_one
        job.kept[PROMPT] = order.encode("utf-8", "replace")
        api = text_api_of(policy, model)
        try:
            async with asyncio.timeout(command_seconds(job.contract)):
                reply = await ask_text(gateway, model, [Turn("user", order)], api)
        except TimeoutError:
            gateway.recording.incomplete = True
            return ExecutionResult(failure=ExecutionFailure("task_timeout", "the model did not answer in time"))
        except asyncio.CancelledError:
            gateway.recording.incomplete = True
            raise
        finally:
            job.kept.update(await asyncio.to_thread(kept_calls, gateway, self._scanner))
        gateway.check()
        gateway.check_refused()
        if isinstance(reply, ExecutionFailure):
            return ExecutionResult(failure=reply)
        job.kept[REPLY_LOG] = reply.text.encode("utf-8", "replace")
        incomplete = why_incomplete(reply, api, gateway.records.last_ending)
        if incomplete is not None:
            return ExecutionResult(failure=incomplete)
        result = await change_of(job, job.kept[REPLY_LOG])
        stood_in = gateway.records.stand_ins(model)
        return replace(result, summary=f"{result.summary} ({stood_in})".strip()) if stood_in else result


async def _describe_files(job: Job) -> list[str]:
    """The files that may change, as data; the names of those that are not shown come last."""
    entries = await job.mirror.files(job.baseline, tuple(job.contract.allowed_paths))
    parts, hidden, left = [], [], _SHOWN_BYTES
    for entry in entries:
        name = entry.path.decode("utf-8", "replace")
        content = await job.mirror.blob(entry.object_id)
        if len(content) > left or b"\0" in content:
            hidden.append(name)
            continue
        left -= len(content)
        parts.append(fence_text(name, content, limit=_SHOWN_BYTES))
    return [*parts, fence_text("files that are not shown", "\n".join(hidden))] if hidden else parts
