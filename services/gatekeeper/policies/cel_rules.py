"""Organisation rules: policy as code in CEL, one expression per file. Reads, compiles and evaluates; gathers no data.

A rule states what is allowed. Only the value ``true`` allows. ``false``, any other value, an unknown field, an error and an
exceeded limit all deny. The language has no loops and no side effects, and the engine stops an evaluation after 10,000 steps of
comprehensions, so no rule and no input can block the gate.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cel_expr_python import cel
from pydantic import Field, ValidationError

from gatewright.errors import ConfigurationError
from gatewright.git.modes import FILE
from gatewright.policy_files import PolicyModel
from gatewright.validation_faults import fault_lines

Stage = Literal["contract", "diff", "evidence"]
#: The names that a rule of a stage may use. Later stages include the names of earlier ones.
VARIABLES: Mapping[Stage, tuple[str, ...]] = {
    "contract": ("contract",),
    "diff": ("contract", "diff"),
    "evidence": ("contract", "diff", "evidence"),
}
#: Seconds. A slower rule denies, even if its result is true.
MOST_SECONDS = 1.0
#: Maximum bytes of a rule's file.
LONGEST_RULE = 16_384
SUFFIX = ".cel"


class RuleHeader(PolicyModel):
    """The ``// key: value`` lines at the top of a rule's file. ``needs`` requests data that is expensive to gather."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{2,63}$")
    stage: Stage
    message: str = Field(min_length=8, max_length=400)
    needs: Literal["sizes"] | None = None


@dataclass(frozen=True)
class CelRule:
    """A compiled rule. ``sha256`` is the digest of its file."""

    header: RuleHeader
    program: Any
    sha256: str

    @property
    def name(self) -> str:
        return self.header.name

    def refusal(self, documents: Mapping[str, Any]) -> str | None:
        """Evaluate the rule.

        Args:
            documents: the documents of its stage, by name.

        Returns:
            None when the rule allows; otherwise the reason as text.
        """
        started = time.monotonic()
        try:
            value = self.program.eval(data={name: documents[name] for name in VARIABLES[self.header.stage]})
            allowed, kind = value.value() is True, value.type()
        except (RuntimeError, ValueError, TypeError, KeyError, OverflowError) as error:
            return f"{self.header.message} (the rule cannot be evaluated: {_first_line(error)})"
        if time.monotonic() - started > MOST_SECONDS:
            return f"{self.header.message} (the rule took longer than {MOST_SECONDS:g} s)"
        if kind == cel.Type.ERROR:
            return f"{self.header.message} (the rule cannot be evaluated: {_first_line(value.value())})"
        if allowed:
            return None
        if kind != cel.Type.BOOL:
            return f"{self.header.message} (the rule gives no answer of true or false)"
        return self.header.message


def load_rules(folder: Path) -> tuple[CelRule, ...]:
    """Load the rules in ``folder``, ordered by file name.

    Every file must be a rule that compiles and evaluates on a sample of its stage. The folder may be empty but not missing:
    missing rules would allow everything.

    Raises:
        ConfigurationError: names the file.
    """
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be read: {error.strerror}") from error
    rules = tuple(_load_rule(path) for path in paths)
    names = [rule.name for rule in rules]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{folder}: two rules are named {twice[0]!r}")
    return rules


def _load_rule(path: Path) -> CelRule:
    if path.suffix != SUFFIX or path.name.startswith("."):
        raise ConfigurationError(f"{path}: only rules ({SUFFIX}) may lie here")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > LONGEST_RULE:
        raise ConfigurationError(f"{path}: a rule of more than {LONGEST_RULE} bytes")
    try:
        text = data.decode()
        header = RuleHeader.model_validate(_header(text))
    except ValidationError as error:
        raise ConfigurationError(f"{path}: {fault_lines(error)}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    rule = CelRule(header, _compile_rule(path, text, header.stage), hashlib.sha256(data).hexdigest())
    if (refused := rule.refusal(sample(sizes=header.needs == "sizes"))) is not None and refused != header.message:
        raise ConfigurationError(f"{path}: tried on a sample: {refused}")
    return rule


def _compile_rule(path: Path, text: str, stage: Stage) -> Any:
    environment = cel.NewEnv(variables=dict.fromkeys(VARIABLES[stage], cel.Type.DYN))
    try:
        program = environment.compile(text)
    except RuntimeError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if program.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise ConfigurationError(f"{path}: a rule answers true or false")
    return program


def _header(text: str) -> dict[str, str]:
    """Parse the leading comment lines into keys and values; a line without a key continues the previous value."""
    found: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        words = line.removeprefix("//").strip()
        key, colon, value = words.partition(":")
        if colon and key.isidentifier():
            if key in found:
                raise ValueError(f"{key} is given twice")
            found[key], last = value.strip(), key
        elif last:
            found[last] = f"{found[last]} {words}".strip()
        elif words:
            raise ValueError("the first line must be // name: ...")
    return found


def _first_line(error: object) -> str:
    return str(error).partition("\n")[0][:200]


# Sample of all data that an organisation rule can see. Rules are evaluated on it when loaded; it documents the names.
# ``gates/cel_gate.py`` builds the real documents; a test compares their names with these.
CONTRACT: Mapping[str, Any] = {
    "task_id": "run-0123456789abcdef0123.contract",
    "task_type": "IMPLEMENT",
    "spec": "Rename the option.",
    "owner": {"role": "PM", "agent_id": "pm-1"},
    "assigned": {"role": "WORKER", "agent_id": "worker-1"},
    "policy_pack": "low",
    "allowed_paths": ["src/options"],
    "acceptance_tests": [{"name": "unit", "cmd": "pytest -q", "must_pass": True}],
    "permissions": {"filesystem": "workspace-write", "shell": "never", "network": "deny", "mcp_tools": []},
    "repository": {"url": "https://git.example.org/shop.git", "target_ref": "refs/heads/main", "landing": "branch"},
    "executor": {"kind": "command", "commands": ["ruff format {paths}"], "artifacts": [], "agent": "", "model": ""},
    "scope": {"allow_dependency_change": False, "allow_protected_paths": [], "allow": [], "destructive": []},
    "max_retries": 0,
    "strict_acceptance": False,
    "tests": "change",
    "audit_only": False,
    "requirement_ids": ["SHOP-CART-014"],
    "forbidden_actions": ["sudo"],
}
DIFF: Mapping[str, Any] = {
    "changed_files": 1,
    "added": 0,
    "modified": 1,
    "deleted": 0,
    "patch_bytes": 120,
    "classes": {"sacred": 0, "ci": 0, "protected": 0, "runner": 0, "dependencies": 0, "migrations": 0, "plain": 1},
    "changes": [
        {
            "path": "src/options/colour.py",
            "status": "modified",
            "old_mode": FILE,
            "new_mode": FILE,
            "classes": ["plain"],
            "size": 900,
        }
    ],
}
EVIDENCE: Mapping[str, Any] = {
    "attempt": 1,
    "baseline_commit": "0" * 40,
    "candidate_tree": "0" * 40,
    "workers": 1,
    "review": {
        "reviewer": "reviewer-1",
        "verdict": "PASS",
        "findings": [{"code": "style", "blocking": False, "path": "src/options/colour.py"}],
    },
    "tests": {
        "runner": "testrunner-1",
        "status": "PASS",
        "sandbox": "bubblewrap",
        "commands": [
            {
                "name": "unit",
                "argv": ["pytest", "-q"],
                "must_pass": True,
                "exit_code": 0,
                "timed_out": False,
                "run": 1,
                "trivial": False,
            }
        ],
    },
}


def sample(*, sizes: bool) -> dict[str, Mapping[str, Any]]:
    """Return the sample documents of the last stage.

    Args:
        sizes: whether changes include sizes, as in a run whose rules request them.
    """
    changes = [change if sizes else {k: v for k, v in change.items() if k != "size"} for change in DIFF["changes"]]
    return {"contract": CONTRACT, "diff": {**DIFF, "changes": changes}, "evidence": EVIDENCE}
