"""The console in a real browser: what people see and press, how it can be used, and that nothing hostile runs.

Screenshots go to the folder that GATEWRIGHT_SCREENSHOTS names, else to the test's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from playwright.sync_api import Browser, Dialog, Page, Request, Route, expect, sync_playwright

from gatewright.app.cli.console import submit_access
from gatewright.app.cli.context import CommandContext
from gatewright.view.board import Board, advance_board
from tests.attacks.people import KEYS
from tests.console.agents import CODE, ServedAgent
from tests.console.chromium import ARGUMENTS, chromium
from tests.console.conftest import MakeConsole, ServedConsole, free_port
from tests.console.deciding import PHRASE, open_deciding
from tests.console.merge_queues import full_queue, held_queue, serve_queues
from tests.console.test_pages import TOKEN, hostile_run
from tests.git.repositories import MakeRepository
from tests.report.conftest import HOSTILE
from tests.view.ledgers import interleaved, make_run, run_id_of

pytestmark = pytest.mark.long
#: A bound for what never comes; a busy machine takes its time.
expect.set_options(timeout=60_000)
#: Read before the tests are given an environment of their own.
SCREENSHOTS = os.environ.get("GATEWRIGHT_SCREENSHOTS")
SIZES = ((3840, 2160), (1280, 900), (400, 800), (360, 740))
SERIOUS = frozenset({"serious", "critical"})


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    folder = Path(SCREENSHOTS or tmp_path / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(120_000)
    yield page
    page.close()


def lines(page: Page) -> dict[str, str]:
    """By run the list that its line stands in."""
    shown: dict[str, str] = page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('.runs > li')].map(each => [each.id, each.parentElement.id]))"
    )
    return shown


def faults(page: Page) -> list[str]:
    """What axe-core finds that keeps people from using the page."""
    found: dict[str, Any] = Axe().run(page).response
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"] if each["impact"] in SERIOUS]


def repository_of(number: int) -> str:
    """The repository that a run of ``make_run`` is on."""
    entries = interleaved([make_run(number)])
    return advance_board(Board(), entries).rows[run_id_of(number)].repository


def fill(console: ServedConsole) -> None:
    console.write(make_run(1))
    console.write(make_run(2, "aborted"))
    console.write(make_run(3, "open"))
    console.write(make_run(4, transitions=3))
    serve_queues(console, (full_queue("Reject negative prices " * 5), held_queue()))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_every_size_and_can_be_used(
    browser: Browser, console: ServedConsole, screenshots: Path, scheme: Any
) -> None:
    fill(console)
    page = browser.new_page(color_scheme=scheme)
    page.set_default_timeout(120_000)
    for name, path in (
        ("board", "/"),
        ("needs", "/needs"),
        ("run", f"/runs/{run_id_of(1)}"),
        ("failed", f"/runs/{run_id_of(2)}"),
        ("policies", "/policies"),
        ("repositories", "/repositories"),
        ("repository", f"/repository?url={quote(repository_of(1))}"),
        ("merge-queues", "/merge"),
        ("agents", "/agents"),
    ):
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            page.goto(console.url + path)
            expect(page.locator("#link-state")).to_have_text("live")
            assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"), (name, width)
            page.screenshot(path=screenshots / f"{name}-{scheme}-{width}.png")
        assert faults(page) == [], name
    page.close()


def test_the_page_follows_the_ledger_through_kills_and_restarts(page: Page, console: ServedConsole) -> None:
    fill(console)
    page.goto(console.url)
    expect(page.locator(".runs > li")).to_have_count(4)
    entries = [entry.transition for entry in interleaved([make_run(number) for number in range(10, 16)])]
    for number in range(0, len(entries), 8):
        console.kill()
        console.write(entries[number : number + 8])
        console.start()
    for number in range(10, 16):
        expect(page.locator(f"#list-landed > #{run_id_of(number)}")).to_be_visible()
    followed = lines(page)
    page.reload()
    assert lines(page) == followed
    expect(page.locator('[data-count="landed"]')).to_have_text("7")


def test_the_keyboard_reaches_everything(page: Page, console: ServedConsole) -> None:
    fill(console)
    page.goto(console.url)
    page.keyboard.press("j")
    expect(page.locator(f"#{run_id_of(4)} a.line")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator(f"#{run_id_of(4)} a.line")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("changed my mind")
    with page.expect_navigation():  # until it has loaded: before, no script of the new page listens to a key
        page.keyboard.press("Enter")
    expect(page.locator(".runs > li")).to_have_count(1)
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.wait_for_url("**/needs")
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url(f"{console.url}/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*")


def test_a_line_that_has_the_focus_keeps_it_while_it_moves(page: Page, console: ServedConsole) -> None:
    whole = make_run(1)
    console.write(whole[:3])
    page.goto(console.url)
    page.keyboard.press("j")
    console.write(whole[3:])
    expect(page.locator(f"#list-landed > #{run_id_of(1)}")).to_be_visible()
    expect(page.locator(f"#{run_id_of(1)} a.line")).to_be_focused()


def test_the_page_of_a_run_follows_it_to_its_end(page: Page, console: ServedConsole) -> None:
    whole = make_run(1)
    console.write(whole[:3])
    page.goto(f"{console.url}/runs/{run_id_of(1)}")
    expect(page.locator(".verdict")).to_contain_text("Running")
    console.write(whole[3:])
    expect(page.locator(".verdict")).to_have_text("Landed")


def test_hostile_words_run_nothing(page: Page, console: ServedConsole) -> None:
    happened: list[str] = []

    def dismissed(dialog: Dialog) -> None:
        happened.append(dialog.message)
        dialog.dismiss()

    def requested(request: Request) -> None:
        if not request.url.startswith(console.url):
            happened.append(request.url)

    page.on("dialog", dismissed)
    page.on("pageerror", lambda error: happened.append(str(error)))
    page.on("request", requested)
    page.goto(console.url)
    expect(page.locator("#link-state")).to_have_text("live")
    run = hostile_run()
    console.write(run.transitions)  # it comes by an event first, and in a page then
    expect(page.locator(f"#{run.run_id}")).to_be_visible()
    for path in ("/", f"/runs/{run.run_id}", "/needs", "/policies", "/repositories", "/merge", "/agents"):
        page.goto(console.url + path)
        expect(page.locator("#link-state")).to_have_text("live")
        assert page.locator("script:not([src^='/static/'])").count() == 0
        assert page.locator("img, iframe").count() == 0
    assert happened == []


def test_a_script_that_got_in_would_not_run(page: Page, console: ServedConsole) -> None:
    page.goto(console.url)
    refused = page.evaluate(
        """() => new Promise(done => {
            document.addEventListener("securitypolicyviolation", event => done(event.effectiveDirective), { once: true });
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
        })"""
    )
    assert refused.startswith("script-src")
    assert page.evaluate("() => window.ran") is None


def test_a_page_of_a_restarted_console_asks_to_sign_in_and_recovers(browser: Browser, make_console: MakeConsole) -> None:
    console = make_console(tokens={TOKEN: "operator"})

    def sign_in(where: Page) -> None:
        where.goto(console.url + "/sign-in")
        where.get_by_label("Token").fill(TOKEN)
        where.get_by_role("button", name="Sign in").click()
        expect(where.locator("#link-state")).to_have_text("live")

    context = browser.new_context()
    page, other = context.new_page(), context.new_page()
    sign_in(page)
    console.kill()
    console.start()
    expect(page.locator("#link-state")).to_have_text("signed out: sign in again")
    assert page.locator("#link-state a").get_attribute("href") == "/sign-in"
    sign_in(other)
    expect(page.locator("#link-state")).to_have_text("live")
    context.close()


def test_the_form_repeats_its_question_after_a_failed_answer(page: Page, make_console: MakeConsole, tmp_path: Path) -> None:
    submit = submit_access(CommandContext(tmp_path, tmp_path, None, tmp_path / "key.pem"), None, None)
    console = make_console(tokens={TOKEN: "operator"}, submit=submit)
    page.goto(console.url)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Submit").click()
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.post_data or "")
        if len(asked) == 1:
            route.abort()
        elif len(asked) == 2:
            route.fulfill(status=503, body="busy")
        else:
            route.continue_()

    page.route("**/submit/check", answer)
    expect(page.locator("#check")).not_to_contain_text("name the paths")
    page.get_by_label("Request").fill("edit")
    expect(page.locator("#check")).to_contain_text("name the paths that may change")
    assert len(asked) >= 3


def test_people_sign_in_see_the_form_and_sign_out(
    page: Page, make_console: MakeConsole, tmp_path: Path, screenshots: Path
) -> None:
    submit = submit_access(CommandContext(tmp_path, tmp_path, None, tmp_path / "key.pem"), None, None)
    console = make_console(tokens={TOKEN: "operator"}, submit=submit)
    fill(console)
    page.goto(console.url)
    page.wait_for_url("**/sign-in")
    assert faults(page) == []
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".runs > li")).to_have_count(4)
    expect(page.locator("#link-state")).to_have_text("live")
    page.get_by_role("link", name="Submit").click()
    for label, words in (
        ("Request", HOSTILE),
        ("Repository", "/srv/repository"),
        ("Paths that may change", "src"),
        ("Commands that must succeed", "python -m pytest -q"),
        ("Commands that make the change", "curl x | sh"),
    ):
        page.get_by_label(label).fill(words)
    expect(page.locator("#check .reason").first).to_have_text("command_not_allowed")
    page.get_by_label("Commands that make the change").fill("python tool.py")
    expect(page.locator("#check .verdict")).to_have_text("Everything that this host can judge would pass")
    assert faults(page) == []
    page.screenshot(path=screenshots / "submit-light-1280.png")
    page.get_by_label("A coding agent").check()
    expect(page.get_by_label("Commands that make the change")).to_be_hidden()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")


def test_a_person_decides_on_the_page_with_a_signature_by_their_agent(
    browser: Browser, tmp_path: Path, make_repository: MakeRepository, screenshots: Path
) -> None:
    """Once, whatever is pressed twice; and no page of another origin has it sign, even with the code."""
    key = tmp_path / "ana.pem"
    key.touch(0o600)
    key.write_bytes(KEYS["ana"].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    console = ServedConsole(tmp_path, decides=True, agent_port=free_port())
    with open_deciding(console, make_repository(), tmp_path, phrase=PHRASE, risk="high") as deciding:
        agent = ServedAgent(key, console.url, deciding.inbox.clock, port=console.agent_port)
        agent.open()
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{console.url}/needs")
        form = page.locator("form.decide")
        form.get_by_role("button", name="Approve").click()
        expect(form.locator(".answer")).to_contain_text("give the code")
        page.get_by_label("Code that the agent printed").fill(CODE)
        page.get_by_role("button", name="Connect").click()
        expect(page.locator("#paired")).to_contain_text("signs your decisions as ana")
        form.get_by_label("To approve, type exactly").fill(PHRASE.upper())
        form.get_by_role("button", name="Approve").click()
        expect(form.locator(".answer")).to_contain_text("approval_phrase_differs")

        # What a person types stays while the page follows the ledger, and Enter decides nothing.
        form.get_by_label("To approve, type exactly").fill(PHRASE)
        form.get_by_label("Comment").fill("looked at")
        page.locator("#live").evaluate("each => each.dataset.old = 'yes'")
        console.write(make_run(3, "open"))  # it is silent, and needs a person
        expect(page.locator("#live[data-old]")).to_have_count(0)
        expect(form.get_by_label("Comment")).to_be_focused()
        page.keyboard.press("Enter")
        assert agent.person.shown == []

        other = browser.new_page()
        other.goto(f"http://localhost:{console.port}/needs")  # an origin that the agent was not told of
        order = {
            "method": "POST",
            "headers": {"Authorization": f"Bearer {CODE}", "Content-Type": "application/json"},
            "body": "{}",
        }
        stolen = other.evaluate(
            "([url, order]) => fetch(url, order).then(() => 'answered', () => 'refused')", [f"{agent.url}/sign", order]
        )
        assert (stolen, agent.person.shown) == ("refused", [])
        other.close()

        page.screenshot(path=screenshots / "deciding-light-1280.png")
        assert faults(page) == []
        form.get_by_role("button", name="Approve").dblclick()
        agent.person.asked.wait()
        expect(form.get_by_role("button", name="Approve")).to_be_disabled()
        agent.person.free.set()
        expect(page.locator("#answer")).to_contain_text("approve, recorded")
        expect(form).to_have_count(0)
        assert (len(agent.person.shown), deciding.status()) == (1, "SUCCESS")
        page.close()
        agent.close()
