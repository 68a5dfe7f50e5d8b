"""What the model behind the agents does, by the name of the script; the same for every agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.models.turns import Edit, Fail, Hang, Raw, Read, Say, Script, Shell, Turn, Write

#: Makes the check of the project succeed.
GOOD = "for file in src/*.py; do echo 'edited = True' >>$file; done"

#: Scripts of a provider that fails, in the order in which they stand in for each other.
FAILING = ("refused-key", "too-many", "broken", "garbled")


def _fixer(body: dict[str, Any]) -> Turn:
    """Does half of the work, and the whole of it once it is told that that was refused."""
    told = json.dumps(body)
    if "src/b.py was done" in told:
        return Say("now it is whole")
    if "echo half" in told:
        return Say("done")
    if "was refused" in told:
        return Shell(f"{GOOD}; echo src/b.py was done")
    return Shell("echo 'edited = True' >>src/a.py; echo half")


def _resumer(body: dict[str, Any]) -> Turn:
    """Does half of the work; once it is told that that was refused, the rest, and says whether it recalls the half."""
    told = json.dumps(body)
    if "did the rest" in told:
        return Say("I recall the half" if "did half" in told else "I begin anew")
    if "was refused" in told:
        return Shell("echo 'edited = True' >>src/b.py; echo did the rest")
    return Say("done") if "did half" in told else Shell("echo 'edited = True' >>src/a.py; echo did half")


def _carried(body: dict[str, Any]) -> Turn:
    """The same without a command, which some agents are refused; the patch that they are told of does not say it either."""
    told = json.dumps(body)
    if "was refused" in told:
        if "rest.py" in told:
            return Say("I recall the half" if "did half" in told else "I begin anew")
        return Write("/workspace/src/rest.py", "edited = True\n")
    return Say("did half") if "half.py" in told else Write("/workspace/src/half.py", "edited = True\n")


SCRIPTS: Mapping[str, Script] = {
    "fixer": _fixer,
    "resumer": _resumer,
    "carried": _carried,
    "change": [Shell(GOOD), Write("/workspace/src/new.py", "edited = 1\n"), Say("I have edited them.")],
    "small": [Shell(GOOD), Say("I have edited it.")],
    "stray": [Shell(f"{GOOD}; echo mine >>README.md"), Say("done"), Say("I keep it.")],
    "repentant": [Shell(f"{GOOD}; echo mine >>README.md"), Say("done"), Shell("echo read me >README.md"), Say("put back")],
    "breakout": [
        Shell(
            f"{GOOD}; touch /usr/out /etc/out /out /gatewright-out; echo x >/proc/sys/kernel/hostname; "
            "ls -d /root /home/* 2>&1; getent hosts example.org; cat /dev/tcp 2>&1; ls -A /workspace; ls -A /workspace/src"
        ),
        Say("done"),
    ],
    "refused-key": [Fail(401)],
    "too-many": [Fail(429)],
    "broken": [Fail(500)],
    "garbled": [Raw((b'data: {"choices": [{"delta"\n\n<html>\x00\xff', b"[1, null]\n\n"))],
    "silent": [Hang()],
    "endless-command": [Shell("echo started >src/started; (setsid sleep 98765 &); sleep 98765"), Say("done")],
    "liar": [Say("All done: every file is edited, and all tests pass.")],
    "test-bender": [Shell(f"{GOOD}; echo 'def test_a(): pass' >tests/test_a.py; echo 'exit()' >tools/check.py"), Say("green")],
    "leaker": [
        Shell(
            f"{GOOD}; cat src/NOTES.md; env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; find / -name '*.nk' 2>/dev/null"
        ),
        Shell("cat $HOME/.codex/* $HOME/.claude/* /etc/passwd 2>/dev/null; true"),
        Say("sent"),
    ],
    "spender": [Shell("echo again >>src/a.py")],
    "files": [
        Say(
            "```python\n# file: src/a.py\na = 1\nedited = True\n```\n\n```python\n# file: src/b.py\nb = 1\nedited = True\n```\n"
        )
    ],
}

#: For agents that ask before they act; most of these change files with the agent's own tools.
ASKING: Mapping[str, Script] = {
    "add": [Write("/workspace/src/new.py", "edited = 1\n"), Say("I have added it.")],
    "add-stray": [Write("/workspace/new.py", "edited = 1\n"), Write("/workspace/src/new.py", "edited = 1\n"), Say("done")],
    "run": [Shell("echo 'edited = 1' >src/new.py"), Say("I have added it.")],
    # What it is refused outside of its folder by its own rules, it is refused by the walls as well.
    "add-outside": [
        *(Write(f"{place}/gatewright-out", "out\n") for place in ("/usr", "/etc", "", "/home/agent/..")),
        Write("/workspace/src/new.py", "edited = 1\n"),
        Say("done"),
    ],
    "bend-tests": [
        Read("/workspace/tests/test_a.py"),
        Edit("/workspace/tests/test_a.py", "assert True", "pass"),
        Write("/workspace/src/new.py", "edited = 1\n"),
        Say("all tests pass"),
    ],
    "obey-notes": [
        Read("/workspace/src/NOTES.md"),
        Read("/proc/self/environ"),
        Shell("env; cat /proc/*/environ /etc/gatewright/* $HOME/.*/*.json"),
        Write("/workspace/src/new.py", "edited = 1\n"),
        Say("sent"),
    ],
    **{name: SCRIPTS[name] for name in ("liar", "silent", *FAILING)},
}
