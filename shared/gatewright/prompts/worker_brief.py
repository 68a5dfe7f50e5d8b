"""The order of a worker: the task, the paths, how to check the change, the limits, and what to report. Pure.

``BRIEF`` is the version of these texts and of the system prompt beside them. Recorded calls are found by their exact bytes, so
the cassette of a task names its version. Version 1 is ``orders.recorded_worker_order``.

Example of the first section::

    # Task

    Add a flag --json to the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gatewright.budgets import command_seconds
from gatewright.contracts import CanonicalMemory, TaskContract
from gatewright.contracts.vocabulary import Shell
from gatewright.order_artifacts.canonical_memory import lines_of
from gatewright.prompts.library import PromptLibrary, ReplyForm
from gatewright.prompts.prompt import Prompt, fence_text, make_order
from gatewright.rules.blocked.asking import BLOCKED_NAME

#: The version of a worker's order that new runs use.
BRIEF: Final = 2

_COMMANDS: Final[dict[Shell, str]] = {
    "never": "You may run any command in the sandbox.",
    "on-request": "A command may need approval. One that is not approved is refused: do what you can without it.",
    "untrusted": "Each command needs approval. One that is not approved is refused: do what you can without it.",
    "deny": "You cannot run commands.",
}
_CACHES: Final = "Caches and build output outside these paths are discarded; you need not remove them."
_NO_QUESTIONS: Final = (
    "No person answers questions during the task. Where the task leaves something open, choose the simplest reading and say so "
    "in your report."
)
_CONVENTIONS: Final = (
    "The repository describes below how to work in it, as of the commit that you start from. A file in a folder applies to "
    "that folder. Follow these files inside the paths that you may change. Where they contradict the contract, follow the "
    "contract."
)


@dataclass(frozen=True, slots=True)
class PreviousAttempt:
    """Why there is a further attempt. ``objective`` is a sentence; ``kept``: the files contain the change of that attempt."""

    objective: str
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryAccess:
    """A worker's access to the repository.

    ``directory`` is the workspace as an agent sees it, ``history`` the number of commits that git shows there, ``shell``
    what the agent may run. ``conventions`` are fenced blocks.
    """

    directory: str = "/workspace"
    shell: Shell = "never"
    history: int = 0
    conventions: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBrief:
    """The input of an order.

    ``data`` are fenced blocks. ``memory`` describes earlier runs. ``asks``: people answer the questions that the task
    leaves in its file.
    """

    contract: TaskContract
    form: ReplyForm = "workspace"
    access: RepositoryAccess = RepositoryAccess()
    previous: PreviousAttempt | None = None
    data: Sequence[str] = ()
    memory: CanonicalMemory | None = None
    asks: bool = False


def worker_prompt(library: PromptLibrary, brief: WorkerBrief) -> Prompt:
    """The whole prompt of a worker. Equal orders are equal bytes: no run id and no time is in it. Raises PromptsError."""
    sections = [
        ("Task", _task(brief)),
        ("Previous attempt", _previous(brief)),
        ("Paths", _paths(brief)),
        ("Checks", _checks(brief)),
        ("Repository", _repository_section(brief)),
        ("Limits", _limits(brief)),
        ("Questions", _questions(brief)),
        ("Report", _report_section(brief)),
        ("Conventions of the repository", _blocks(_CONVENTIONS, brief.access.conventions)),
        ("Data", _blocks("", [*brief.data, *_past(brief.memory)])),
    ]
    body = "\n\n".join(f"# {title}\n\n{text}" for title, text in sections if text)
    return make_order(library.compose_worker(brief.form), body)


def _task(brief: WorkerBrief) -> str:
    contract = brief.contract
    lines = [contract.inputs.spec.strip()]
    if contract.audit_only:
        lines.append("This is an audit: change nothing, and report what you find.")
    if contract.requirement_ids:
        lines.append(f"The change implements the requirements {', '.join(contract.requirement_ids)}.")
    if contract.forbidden_actions:
        lines.append(f"Forbidden: {', '.join(f'`{each}`' for each in contract.forbidden_actions)}.")
    return "\n\n".join(lines)


def _previous(brief: WorkerBrief) -> str:
    attempt = f"This is attempt {brief.contract.attempt}."
    if brief.previous is None:
        return f"{attempt} An earlier change was refused." if brief.contract.attempt > 1 else ""
    if brief.previous.kept:
        files = "The files contain that change. Correct it, and keep what was not criticised."
    else:
        files = "The files do not contain that change. Make the whole change again, without the fault."
    return (
        f"{attempt} The previous change was refused. {brief.previous.objective} {files} The reasons for the refusal and the "
        "refused patch are under Data."
    )


def _paths(brief: WorkerBrief) -> str:
    if brief.contract.audit_only:
        return ""
    paths = "\n".join(f"- `{path}`" for path in brief.contract.allowed_paths)
    caches = f"\n\n{_CACHES}" if brief.form == "workspace" else ""
    return (
        f"You may create, change and delete files only at or below these paths:\n\n{paths}\n\n"
        "Do not touch any other path: a change elsewhere has the whole work refused. If the task cannot be done within them, "
        f"change nothing and say why.{caches}"
    )


def _checks(brief: WorkerBrief) -> str:
    # Hidden checks are taken out before any role but the test runner is sent the contract; a file on disk still has them.
    commands = [test.cmd for test in brief.contract.acceptance_tests if test.must_pass and not test.hidden]
    if not commands or brief.contract.audit_only:
        return ""
    listed = "\n".join(f"    {command}" for command in commands)
    many = len(commands) > 1
    if brief.form == "files" or brief.access.shell == "deny":
        return f"After your change, {'each of these commands' if many else 'this command'} must exit with 0:\n\n{listed}"
    which, each, whose = ("these commands", "Each", "Their") if many else ("this command", "It", "Its")
    installed = f" {whose} programs and packages are installed." if brief.contract.environment is not None else ""
    return f"Run {which} yourself before you finish. {each} must exit with 0.{installed}\n\n{listed}"


def _repository_section(brief: WorkerBrief) -> str:
    baseline = brief.contract.rollback.baseline_ref
    if brief.form == "files":
        return f"The files under Data are those of commit {baseline}."
    commands = "You may read every file." if brief.contract.audit_only else _COMMANDS[brief.access.shell]
    lines = [f"`{brief.access.directory}` holds the repository at commit {baseline}. {commands}"]
    if brief.access.shell == "deny" or brief.contract.audit_only:
        return lines[0]
    if brief.access.history:
        lines.append(
            f"`git log`, `git blame`, `git diff` and `git status` work on a copy of the last {brief.access.history:,} commits. "
            "Commits and branches that you make there are discarded."
        )
    else:
        lines.append("There is no git history.")
    return "\n\n".join(lines)


def _limits(brief: WorkerBrief) -> str:
    if brief.form == "files":
        return ""
    budget = brief.contract.budget
    seconds = command_seconds(brief.contract)
    if budget is not None and budget.wall_sec is not None:
        seconds = min(seconds, budget.wall_sec)
    limits = [_duration(seconds)]
    if budget is not None:
        limits += [f"{budget.iterations:,} model calls"] if budget.iterations is not None else []
        limits += [f"{budget.tokens:,} tokens"] if budget.tokens is not None else []
        limits += [f"{budget.cost_usd:.2f} US dollars"] if budget.cost_usd is not None else []
    listed = limits[0] if len(limits) == 1 else f"{', '.join(limits[:-1])} and {limits[-1]}"
    return f"You have {listed}. When a limit is reached, you are stopped and the work is lost."


def _questions(brief: WorkerBrief) -> str:
    if not brief.asks or brief.contract.audit_only:
        return _NO_QUESTIONS if brief.form == "workspace" else ""
    where = "write it into the file" if brief.form == "workspace" else "give one more file, named"
    return (
        "When only a person can decide something, make your best guess, continue with it, and "
        f"{where} `{BLOCKED_NAME}` in the root of the repository: a JSON object, or a list of them, with the fields "
        '"question", "best_guess", "fallback_action" (what you do meanwhile), "can_resume_without_answer" (true) and '
        '"human_required_for" (null). The file does not become part of the change. A matter of taste is no question: decide it '
        "yourself."
    )


def _report_section(brief: WorkerBrief) -> str:
    if brief.form == "files":
        return ""
    if brief.contract.audit_only:
        return "End with what you found, each with its file and line."
    return "End with a short report: what you changed and why, the commands that you ran with their results, and what is open."


def _blocks(words: str, blocks: Sequence[str]) -> str:
    return "\n\n".join([words, *blocks] if words else blocks) if blocks else ""


def _past(memory: CanonicalMemory | None) -> tuple[str, ...]:
    """Strangers chose the names of files in it: it is data, behind a fence."""
    return (fence_text("earlier runs on this repository", "\n".join(lines_of(memory))),) if memory is not None else ()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} seconds"
    whole = f"{minutes:,} minute{'s' if minutes > 1 else ''}"
    return f"{whole} and {rest} seconds" if rest else whole
