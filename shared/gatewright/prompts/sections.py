"""The sections that every order has, in their order; an empty one is written all the same (OmegaOS, fresh-context template)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gatewright.contracts import TaskContract

_NOTHING = "(none)"
_MISSION = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshContext:
    """The content for a receiver without any context. ``whats_done`` and similar are text of the system."""

    mission: str
    purpose: str = ""
    context: Sequence[str] = ()
    whats_done: Sequence[str] = ()
    current_task: str = ""
    done_criteria: str = ""
    verify_command: str = ""
    key_decisions: Sequence[str] = ()
    files_in_scope: Sequence[str] = ()
    relevant_memories: Sequence[str] = ()

    def render(self) -> str:
        """Return all ten sections as Markdown."""
        parts = (
            ("Mission", self.mission),
            ("Purpose", self.purpose),
            ("Context", _bullets(self.context)),
            ("What's Done", _bullets(self.whats_done)),
            ("Current Task", self.current_task),
            ("Done Criteria", self.done_criteria),
            ("Verify Command", self.verify_command),
            ("Key Decisions", _bullets(self.key_decisions)),
            ("Files in Scope", _bullets(self.files_in_scope)),
            ("Relevant Memories", _bullets(self.relevant_memories)),
        )
        return "\n\n".join(f"## {title}\n\n{text.strip() or _NOTHING}" for title, text in parts)


def mission_line(words: str) -> str:
    """Return the text on one line, cut to the length of a mission."""
    line = " ".join(words.split())
    return line if len(line) <= _MISSION else f"{line[: _MISSION - 1]}…"


def of_contract(
    contract: TaskContract,
    current_task: str,
    *,
    done: Sequence[str] = (),
    decisions: Sequence[str] = (),
    memories: Sequence[str] = (),
) -> FreshContext:
    """Return the sections of a task under ``contract``. They have no run id and no time: equal orders are equal bytes."""
    # Hidden checks are taken out before any role but the test runner is sent the contract; a file on disk still has them.
    must_pass = [test for test in contract.acceptance_tests if test.must_pass and not test.hidden]
    return FreshContext(
        mission=mission_line(contract.inputs.spec),
        purpose=contract.inputs.spec,
        context=_contract_facts(contract),
        whats_done=done,
        current_task=current_task,
        done_criteria=f"exit code 0: {', '.join(test.name or test.cmd for test in must_pass)}" if must_pass else "",
        verify_command=" && ".join(test.cmd for test in must_pass),
        key_decisions=decisions,
        files_in_scope=tuple(contract.allowed_paths),
        relevant_memories=memories,
    )


def _contract_facts(contract: TaskContract) -> tuple[str, ...]:
    facts = [f"baseline commit {contract.rollback.baseline_ref}"]
    if contract.requirement_ids:
        facts.append(f"requirements {', '.join(contract.requirement_ids)}")
    if contract.forbidden_actions:
        facts.append(f"forbidden: {', '.join(contract.forbidden_actions)}")
    if contract.environment is not None:
        # Not its path: that is a place on a host, and reveals only an account name to a model.
        facts.append("commands see a folder of installed programs and packages; its programs come first on PATH")
    if contract.attempt > 1:
        facts.append(f"attempt {contract.attempt}: an earlier one was refused")
    return tuple(facts)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
