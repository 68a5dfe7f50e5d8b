"""The program that git asks for a password: exactly this repository, or nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gatewright.git.access import credential_helper
from gatewright.git.access.credentials import HelperAnswer, ResolvedAccess
from gatewright.git.command import GitCommand

KNOWN = {"protocol": "https", "host": "forge.example:8443", "path": "team/shop.git", "username": "bot", "password": "pw-31337"}
RIGHT = {name: KNOWN[name] for name in ("protocol", "host", "path")}


def lines(question: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in question.items()) + "\n"


@pytest.mark.parametrize("more", [{}, {"username": "bot"}, {"wwwauth[]": 'Basic realm="x"'}])
def test_it_answers_for_the_repository_that_git_was_started_for(more: dict[str, str]) -> None:
    answer = credential_helper.answer(lines(RIGHT | more), json.dumps([KNOWN]))
    assert answer == "username=bot\npassword=pw-31337\n"


@pytest.mark.parametrize(
    "other",
    [
        {"host": "forge.example"},
        {"host": "forge.example:8443.evil.example"},
        {"protocol": "http"},
        {"path": "team/shop.git.evil"},
        {"path": "team"},
        {"path": ""},
        {"username": "another"},
    ],
)
def test_it_answers_for_no_other(other: dict[str, str]) -> None:
    assert credential_helper.answer(lines(RIGHT | other), json.dumps([KNOWN])) == ""


@pytest.mark.parametrize(("word", "answers"), [("get", True), ("store", False), ("erase", False)])
def test_the_helper_program_answers_repeatedly_and_stores_nothing(word: str, *, answers: bool) -> None:
    descriptor = os.memfd_create("known")
    os.write(descriptor, json.dumps([KNOWN]).encode())
    argv = [sys.executable, "-I", "-S", credential_helper.__file__, str(descriptor), word]
    for _ in range(2):
        said = subprocess.run(argv, input=lines(RIGHT).encode(), capture_output=True, check=True, pass_fds=(descriptor,))
        assert (b"pw-31337" in said.stdout, said.stderr) == (answers, b"")
    os.close(descriptor)


def test_no_argument_or_variable_shows_the_password(tmp_path: Path) -> None:
    """Seen from inside: an alias runs where a helper would, and looks at itself and at every process above it."""
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "bare"], check=True, env={"PATH": os.environ["PATH"]})
    access = ResolvedAccess({}, {}, (HelperAnswer(**KNOWN),))
    look = 'p=$$; while [ "$p" -gt 1 ] && [ -r /proc/$p/cmdline ]; do cat /proc/$p/cmdline /proc/$p/environ; echo; '
    look += "p=$(cut -d' ' -f4 /proc/$p/stat); done"
    with access.opened() as (settings, descriptors):
        git = GitCommand(tmp_path / "bare", protocols=("https",))
        seen = git.execute("-c", f"alias.look=!{look}", "look", settings=settings, pass_fds=descriptors)
        filled = git.execute("credential", "fill", stdin=lines(RIGHT).encode(), settings=settings, pass_fds=descriptors)
    assert b"credential_helper.py" in seen
    assert KNOWN["password"].encode() not in seen
    # And yet it is what git is told.
    assert f"password={KNOWN['password']}\n".encode() in filled


def test_a_credential_repeated_by_a_server_is_always_redacted() -> None:
    access = ResolvedAccess({}, {}, (HelperAnswer(**KNOWN | {"password": "p/w+31337"}),))
    said = b"p/w+31337 p%2Fw%2B31337 Ym90OnAvdyszMTMzNw== cC93KzMxMzM3"
    assert access.without_credentials(said) == b" ".join([b"[credential]"] * 4)
    assert "31337" not in repr(access)
