"""People see who must approve what, and the form offers what the system has and judges the environment."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewright.app.cli.console import submit_access
from gatewright.app.cli.context import CommandContext
from gatewright.app.stack import state
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.contracts.people.review_votes import OwnedPaths, ReviewQuorum
from gatewright.work_documents.approval_rule_words import rule_words
from tests.console.conftest import ServedConsole
from tests.console.deciding import DecidingConsole, open_deciding
from tests.console.test_deciding import sign_in
from tests.console.test_pages import TOKEN, Markup, ask
from tests.console.test_submitting import FIELDS
from tests.git.repositories import MakeRepository
from tests.stack.test_state import make_state

QUORUM = ReviewQuorum(
    domain=("ana",), quality=("@release",), by_owner=True, owners=(OwnedPaths(line=1, pattern="/pay/<b>", owners=("ana",)),)
)


def test_a_rule_is_described_with_paths_people_and_quorum() -> None:
    rule = ApprovalRule(
        name="pipeline",
        reason="protected_class",
        risk="high",
        approvers=("ana", "@release"),
        classes=("ci",),
        refs=("refs/heads/main",),
        within_seconds=86_400,
        phrase="land it",
        escalate_to=("ben",),
    )
    words = rule_words(rule)
    assert words.when == "A change touches protected paths of these classes: ci."
    assert words.where == "Every repository; branches refs/heads/main."
    assert words.takes == 'One approval, not of a run of their own. The approver types: "land it".'
    assert words.silence == "After 24 hours these people are asked: ben. Then the run ends."
    panel = rule_words(ApprovalRule(name="panel", reason="review", risk="low", approvers=("ana",), quorum=QUORUM))
    assert "3 reviewers, 2 of them green" in panel.takes
    assert "domain (ana) and one for quality (@release)" in panel.takes
    assert panel.owners == (("/pay/<b>", "ana"),)


@pytest.fixture
def deciding(tmp_path: Path, make_repository: MakeRepository) -> Iterator[DecidingConsole]:
    """A console of an operator whose stack on this host offers one environment."""
    offered = tmp_path / "envs" / "py"
    offered.mkdir(parents=True)
    home = tmp_path / "stack"
    home.mkdir()
    state.write(home, make_state(environments=(str(offered), str(tmp_path / "made" / "*"))))
    submit = submit_access(CommandContext(home, home, None, home / "key.pem"), None, None)
    console = ServedConsole(tmp_path, decides=True, tokens={TOKEN: "operator"}, submit=submit)
    with open_deciding(console, make_repository(), tmp_path, phrase="land it") as deciding:
        yield deciding


def test_the_policies_page_names_the_required_approvers(deciding: DecidingConsole) -> None:
    page = ask(deciding.console, "/policies", headers=sign_in(deciding.console, TOKEN)).text
    text = " ".join(Markup(page).text.split())
    for words in ("Who must approve what", "A change is ready to land.", "ana, @release", "One approval", 'types: "land it"'):
        assert words in text
    assert deciding.request.repository in text
    assert "After 7 days the run ends, and nothing lands." in text


def test_the_form_offers_environments_branches_and_repositories(deciding: DecidingConsole, tmp_path: Path) -> None:
    console, operator = deciding.console, sign_in(deciding.console, TOKEN)
    form = ask(console, "/submit", headers=operator).text
    assert f'<option value="{tmp_path}/envs/py"' in form
    repository = deciding.request.repository
    assert f'<option value="{repository}"' in form
    branches = ask(console, f"/submit/branches?repository={repository}", headers=operator).text
    assert '<option value="refs/heads/main">' in branches
    # Only what there are runs of is read: the form is no way to look into other folders of the host.
    (tmp_path / "other").mkdir()
    assert "<option" not in ask(console, f"/submit/branches?repository={tmp_path}/other", headers=operator).text
    assert "<option" not in ask(console, f"/submit/branches?repository={repository}").text


def test_an_environment_that_is_not_offered_does_not_pass(deciding: DecidingConsole, tmp_path: Path) -> None:
    console, operator = deciding.console, sign_in(deciding.console, TOKEN)
    fields = {**FIELDS, "mark": operator["x-gatewright-mark"]}

    def check(environment: str) -> str:
        sent = {**fields, "environment": environment}
        return html.unescape(ask(console, "/submit/check", method="POST", form=sent, headers=operator).text)

    assert "would pass" in check(f"{tmp_path}/envs/py")
    refused = check("/nowhere/env")
    assert "It would be refused" in refused
    assert "environment_not_allowed" in refused
    assert f"offered: {tmp_path}/envs/py" in refused
    assert f"{os.sep}made" not in refused


def test_an_environment_that_cannot_be_judged_is_named_as_unjudged(tmp_path: Path) -> None:
    console = ServedConsole(tmp_path, tokens={TOKEN: "operator"})
    console.submit = submit_access(CommandContext(tmp_path, tmp_path, None, tmp_path / "key.pem"), None, None)
    console.open()
    operator = sign_in(console, TOKEN)
    sent = {**FIELDS, "mark": operator["x-gatewright-mark"], "environment": "/srv/env"}
    told = ask(console, "/submit/check", method="POST", form=sent, headers=operator).text
    console.close()
    assert "It would pass" not in told
    assert "Not judged: the environment" in told
