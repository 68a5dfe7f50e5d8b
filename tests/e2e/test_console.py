"""One person, one browser, a real stack: order by the form, watch, be asked, look at the change, decide, see it land, verify.

Once with a passkey (an authenticator inside the browser), and once with the signing agent.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.agents import CODE, ServedAgent
from tests.console.conftest import free_port
from tests.console.test_browser import browser, screenshots
from tests.console.virtual_authenticator import VirtualAuthenticator, enter
from tests.e2e.conftest import MakeProject
from tests.e2e.live_page import live_page
from tests.e2e.stack import PREFIX, Stack, running_stack
from tests.e2e.test_approvals import PHRASE, RULE, AskingStack, make_key, make_policies
from tests.git.repositories import Repository

pytestmark = pytest.mark.long
__all__ = ["browser", "screenshots"]
TOKEN = "0123456789abcdef" * 2
Decide = Callable[[Page], None]


@dataclass(frozen=True)
class StackBesideBrowser(AskingStack):
    """The browser's loop runs in the thread of the test: every command is a process of its own."""

    def command(
        self, *words: str, cwd: Path | None = None, extra: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self.process(*words, cwd=cwd, extra=extra)


def ordered(page: Page, project: Path) -> str:
    """A run by the form: what the gates would say is seen before it is sent."""
    page.get_by_role("link", name="Submit").click()
    for label, words in (
        ("Request", "edit all files"),
        ("Repository", str(project)),
        ("Paths that may change", "src"),
        ("Commands that must succeed", "python tools/check.py 0"),
        ("Commands that make the change", "python tools/edit.py 0 {paths}"),
    ):
        page.get_by_label(label).first.fill(words)
    page.get_by_label("Environment").first.select_option(str(PREFIX))
    expect(page.locator("#check .verdict")).to_have_text("Everything that this host can judge would pass")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/runs/*")
    return page.url.rpartition("/")[2]


def landed_and_verified(page: Page, stack: Stack, project: Path, folder: Path, decide: Decide) -> str:
    """What `verify` says of the bundle that the person takes away."""
    run_id = ordered(page, project)
    expect(page.locator(".verdict")).to_have_text("Waiting for a person")
    expect(page.locator("#change")).to_contain_text("edited = True")
    decide(page)
    expect(page.locator(".verdict")).to_have_text("Landed")
    page.locator("#evidence summary").first.click()
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download the bundle").click()
    archive = folder / f"{run_id}.zip"
    downloading.value.save_as(archive)
    verified = stack.command("verify", str(archive))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert (
        Repository(project, project.parent / "home").git("show", f"gatewright/{run_id}:src/a.py").endswith(b"edited = True\n")
    )
    return verified.stdout


def test_one_person_orders_watches_decides_and_verifies_in_one_browser(
    browser: Browser, tmp_path: Path, make_project: MakeProject, screenshots: Path
) -> None:
    key, project, port, agent_port = make_key(tmp_path), make_project(), free_port(), free_port()
    policies = make_policies(tmp_path / "policies", key, RULE | {"yourself": True})
    origin = f"http://localhost:{port}"
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    stack = StackBesideBrowser(tmp_path / "home", policies)
    options = ("--token-file", f"operator={token}", "--sign-agent", f"http://127.0.0.1:{agent_port}")
    page = browser.new_page(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    page.set_default_timeout(120_000)
    authenticator = VirtualAuthenticator(page)
    agent = ServedAgent(key, origin, port=agent_port)

    def by_passkey(page: Page) -> None:
        form = page.locator("form.decide")
        form.get_by_label("To approve, type exactly").fill(PHRASE)
        authenticator.recognises(False)
        form.get_by_role("button", name="Approve").click()
        expect(form.locator(".answer")).to_contain_text("the passkey did not sign")
        authenticator.recognises(True)
        page.screenshot(path=screenshots / "passkey-run-light-1280.png", full_page=True)
        form.get_by_role("button", name="Approve").click()

    def by_agent(page: Page) -> None:
        page.goto(f"{origin}/needs")
        page.locator("#pairing summary").click()
        page.get_by_label("Code that the agent printed").fill(CODE)
        page.get_by_role("button", name="Connect").click()
        expect(page.locator("#paired")).to_contain_text("signs your decisions as ana")
        form = page.locator("form.decide")
        form.get_by_label("To approve, type exactly").fill(PHRASE)
        agent.person.free.set()
        form.get_by_role("button", name="Approve").click()
        expect(page.locator("#answer")).to_contain_text("approve, recorded")
        page.go_back()

    with running_stack(stack.home, workers=1, stack=stack), live_page(stack, port, *options):
        agent.open()
        page.goto(origin)
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.goto(f"{origin}/passkey")
        page.get_by_label("Your name").fill("ana")
        page.get_by_role("button", name="Create").click()
        expect(page.locator("#passkey-answer")).to_contain_text("created: SHA256:")
        page.screenshot(path=screenshots / "passkey-light-1280.png")
        enter(policies, "ana", page.locator("#roster-entry").inner_text())

        told = landed_and_verified(page, stack, project, tmp_path / "first", by_passkey)
        assert f"by passkey on {origin}" in told
        page.goto(f"{origin}/passkey")
        page.get_by_role("button", name="Remove from this browser").click()
        expect(page.locator("#passkey-kept")).to_contain_text("no passkey")
        told = landed_and_verified(page, stack, project, tmp_path / "second", by_agent)
        assert "by passkey" not in told
        assert "approval  ana (SHA256:" in told
        assert len(agent.person.shown) == 1
        agent.close()
    page.close()
