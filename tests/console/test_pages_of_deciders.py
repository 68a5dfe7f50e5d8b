"""What people who decide and order see in a real browser, at every size, light and dark; and that nothing they type runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from playwright.sync_api import Browser, Dialog, Page, Request, expect

from gatewright.app.cli.console import submit_access
from gatewright.app.cli.context import CommandContext
from gatewright.view.safe_text import visible
from tests.attacks.people import KEYS
from tests.console.agents import CODE, ServedAgent
from tests.console.conftest import ServedConsole, free_port
from tests.console.deciding import PHRASE, open_deciding
from tests.console.test_browser import SIZES, browser, faults, page, screenshots
from tests.console.test_pages import TOKEN
from tests.console.virtual_authenticator import VirtualAuthenticator, enter
from tests.git.repositories import MakeRepository
from tests.report.conftest import HOSTILE
from tests.view.ledgers import make_run, run_id_of

pytestmark = pytest.mark.long
__all__ = ["browser", "page", "screenshots"]
#: What a form may hold: a browser sends no zero and no line's end in a field.
TYPED = HOSTILE.replace("\x00", "").replace("\u2028", "")


def operators_console(folder: Path) -> ServedConsole:
    submit = submit_access(CommandContext(folder, folder, None, folder / "key.pem"), None, None)
    return ServedConsole(folder, decides=True, tokens={TOKEN: "operator"}, submit=submit)


def sign_in(page: Page, origin: str) -> None:
    page.goto(origin)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#link-state")).to_have_text("live")


def test_every_page_of_an_operator_fits_every_size_and_can_be_used(
    browser: Browser, tmp_path: Path, make_repository: MakeRepository, screenshots: Path
) -> None:
    console = operators_console(tmp_path)
    with open_deciding(console, make_repository(), tmp_path, phrase=PHRASE, risk="high") as deciding:
        origin = f"http://localhost:{console.port}"
        schemes: tuple[Any, ...] = ("light", "dark")
        for scheme in schemes:
            page = browser.new_page(color_scheme=scheme)
            VirtualAuthenticator(page)
            page.goto(f"{origin}/sign-in")
            page.screenshot(path=screenshots / f"sign-in-{scheme}-1280.png")
            assert faults(page) == []
            sign_in(page, origin)
            for name, path in (
                ("asked", "/needs"),
                ("deciding", f"/runs/{deciding.request.run_id}#decide"),
                ("passkey", "/passkey"),
                ("submit", "/submit"),
                ("unknown", "/runs/run-00000000000000000000"),
            ):
                for width, height in SIZES:
                    page.set_viewport_size({"width": width, "height": height})
                    page.goto(origin + path)
                    if name == "passkey":
                        page.get_by_label("Your name").fill("ana")
                        page.get_by_role("button", name="Create").click()
                        expect(page.locator("#passkey-answer")).to_contain_text("created: SHA256:")
                    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"), (name, width)
                    page.screenshot(path=screenshots / f"{name}-{scheme}-{width}.png")
                assert faults(page) == [], name
            page.close()


def test_nothing_that_people_type_runs(page: Page, tmp_path: Path, make_repository: MakeRepository) -> None:
    """Each field of each form, in the address, in what comes back, and in the ledger."""
    console = operators_console(tmp_path)
    with open_deciding(console, make_repository(), tmp_path, phrase=PHRASE) as deciding:
        origin, happened = f"http://localhost:{console.port}", list[str]()
        VirtualAuthenticator(page)

        def dismissed(dialog: Dialog) -> None:
            happened.append(dialog.message)
            dialog.dismiss()

        def requested(asked: Request) -> None:
            if not asked.url.startswith(origin):
                happened.append(asked.url)

        page.on("dialog", dismissed)
        page.on("pageerror", lambda error: happened.append(str(error)))
        page.on("request", requested)
        sign_in(page, origin)
        page.locator("#search").fill(TYPED)
        page.keyboard.press("Enter")
        expect(page.locator("#search")).to_have_value(visible(TYPED))  # a link may have brought it: it is written out
        page.goto(f"{origin}/submit")
        for field in page.locator("form.order input[type=text], form.order input:not([type]), form.order textarea").all():
            if field.is_visible():
                field.fill(TYPED)
        expect(page.locator("#check .verdict, #check .reason, #check .faults").first).to_be_visible()
        page.get_by_role("button", name="Submit").click()
        expect(page.get_by_role("alert")).to_be_visible()
        page.goto(f"{origin}/passkey")
        page.get_by_label("Name", exact=True).fill(TYPED)
        page.get_by_label("Public key").fill(TYPED)
        page.get_by_role("button", name="Use this passkey").click()
        expect(page.locator("#passkey-answer")).to_contain_text("not the public key of a passkey")
        page.get_by_label("Your name").fill("ana")
        page.get_by_role("button", name="Create").click()
        expect(page.locator("#passkey-answer")).to_contain_text("created: SHA256:")
        enter(tmp_path / "policies", "ana", page.locator("#roster-entry").inner_text())
        page.goto(f"{origin}/needs")
        form = page.locator("form.decide")
        form.get_by_label("To approve, type exactly").fill(TYPED)
        form.get_by_label("Comment").fill(TYPED)
        form.get_by_role("button", name="Approve").click()
        expect(form.locator(".answer")).to_contain_text("approval_phrase_differs")
        expect(form.locator(".signed-words")).to_contain_text("<script>")
        form.get_by_label("To approve, type exactly").fill(PHRASE)
        form.get_by_role("button", name="Approve").click()
        expect(page.locator("#answer")).to_contain_text("approve, recorded")
        assert deciding.status() == "SUCCESS"
        page.goto(f"{origin}/runs/{deciding.request.run_id}")
        expect(page.locator(".verdict")).to_have_text("Landed")
        assert page.locator("main img, main iframe, main script").count() == 0
        assert happened == []


def test_a_readers_position_stays_while_the_board_follows(page: Page, tmp_path: Path) -> None:
    console = ServedConsole(tmp_path)
    console.open()
    for number in range(1, 40):
        console.write(make_run(number, "aborted" if number % 2 else "success"))
    later = [make_run(number) for number in range(50, 56)]
    page.goto(console.url)
    expect(page.locator("#link-state")).to_have_text("live")
    looked_at = page.locator(f"#{run_id_of(9)}")
    looked_at.scroll_into_view_if_needed()
    before = looked_at.bounding_box()
    for transitions in later:
        console.write(transitions[:4])
        expect(page.locator(f"#list-running > #{transitions[0].run_id}")).to_have_count(1)
        console.write(transitions[4:])
        expect(page.locator(f"#list-landed > #{transitions[0].run_id}")).to_have_count(1)
    after = looked_at.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) < 2
    console.close()


def test_the_keyboard_leads_to_every_page(page: Page, tmp_path: Path) -> None:
    console = ServedConsole(tmp_path)
    console.open()
    page.goto(console.url)
    for key, path in (("n", "/needs"), ("r", "/repositories"), ("a", "/agents"), ("p", "/policies"), ("b", "/")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(console.url + path)
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    console.close()


def person_with_passkey(browser: Browser, origin: str, name: str, policies: Path) -> tuple[Page, VirtualAuthenticator]:
    """A person at a browser of their own, with a passkey that the operator has entered; they look at *Needs you*."""
    page = browser.new_page(viewport={"width": 400, "height": 900})
    authenticator = VirtualAuthenticator(page)
    page.goto(f"{origin}/passkey")
    page.get_by_label("Your name").fill(name)
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#passkey-answer")).to_contain_text("created: SHA256:")
    enter(policies, name, page.locator("#roster-entry").inner_text())
    page.goto(f"{origin}/needs")
    expect(page.locator("#link-state")).to_have_text("live")
    return page, authenticator


def test_a_person_delegates_with_a_passkey_and_the_delegate_approves(
    browser: Browser, tmp_path: Path, make_repository: MakeRepository
) -> None:
    console = ServedConsole(tmp_path, decides=True)
    with open_deciding(console, make_repository(), tmp_path, phrase=PHRASE) as deciding:
        origin, policies = f"http://localhost:{console.port}", tmp_path / "policies"
        ana, authenticator = person_with_passkey(browser, origin, "ana", policies)
        ben, _ = person_with_passkey(browser, origin, "ben", policies)
        form = ana.locator("form.decide")
        form.get_by_text("Delegate to another person", exact=True).click()
        form.get_by_label("To", exact=True).fill("ben")
        authenticator.recognises(False)
        form.get_by_role("button", name="Delegate").click()
        expect(form.locator(".answer")).to_contain_text("the passkey did not sign")
        assert deciding.decided() == []
        authenticator.recognises(True)
        form.get_by_role("button", name="Delegate").click()
        expect(ana.locator("#answer")).to_contain_text("delegate, recorded")
        for page in (ana, ben):  # Ben's page was open all the time
            expect(page.locator("li.need.approval")).to_contain_text("for ben")
        form = ana.locator("form.decide")
        form.get_by_label("To approve, type exactly").fill(PHRASE)
        form.get_by_role("button", name="Approve").click()
        expect(form.locator(".answer")).to_contain_text("approval_handed_on")
        form = ben.locator("form.decide")
        form.get_by_label("To approve, type exactly").fill(PHRASE)
        form.get_by_role("button", name="Approve").click()
        expect(ben.locator("#answer")).to_contain_text("approve, recorded")
        assert (deciding.decided(), deciding.status()) == (["delegate", "approve"], "SUCCESS")
        ana.close()
        ben.close()


def test_a_person_hands_a_request_on_with_a_signature_by_their_agent(
    browser: Browser, tmp_path: Path, make_repository: MakeRepository, screenshots: Path
) -> None:
    key = tmp_path / "ana.pem"
    key.touch(0o600)
    key.write_bytes(KEYS["ana"].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    console = ServedConsole(tmp_path, decides=True, agent_port=free_port())
    with open_deciding(console, make_repository(), tmp_path, phrase=PHRASE) as deciding:
        agent = ServedAgent(key, console.url, deciding.inbox.clock, port=console.agent_port)
        agent.person.word = "delegate"
        agent.person.free.set()
        agent.open()
        page = browser.new_page(viewport={"width": 400, "height": 900})
        page.goto(f"{console.url}/needs")
        page.get_by_text("Signing agent", exact=True).click()
        page.get_by_label("Code that the agent printed").fill(CODE)
        page.get_by_role("button", name="Connect").click()
        expect(page.locator("#paired")).to_contain_text("signs your decisions as ana")
        form = page.locator("form.decide")
        form.get_by_text("Delegate to another person", exact=True).click()
        form.get_by_role("button", name="Delegate").click()
        expect(form.locator(".answer")).to_contain_text("name the person")
        form.get_by_label("To", exact=True).fill("mallory")
        form.get_by_role("button", name="Delegate").click()
        expect(form.locator(".answer")).to_contain_text("delegate_unknown")
        form.get_by_label("To", exact=True).fill("ben")
        page.screenshot(path=screenshots / "handing-on-light-400.png")
        assert faults(page) == []
        form.get_by_role("button", name="Delegate").click()
        expect(page.locator("#answer")).to_contain_text("delegate, recorded")
        expect(page.locator("li.need.approval")).to_contain_text("for ben")
        assert deciding.decided() == ["delegate"]
        page.close()
        agent.close()
