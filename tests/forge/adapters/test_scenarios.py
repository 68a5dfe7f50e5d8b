"""One table of what the port promises, played with each forge: the same outcome of all three."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gatewright.app.forge.port import ChangeRequest, Check, CheckState
from gatewright.contracts.queue_receipt import Blob
from gatewright.errors import DeniedError, UnavailableError
from tests.forge.adapters.worlds import CLOSED, FEATURE, MERGED, PATCH, RUN_HEAD, World, world_of
from tests.forge.standin.faults import Fault
from tests.forge.standin.server import Standin
from tests.forge.standin.state import Status, commit_id

Scenario = Callable[[World], Awaitable[Any]]
MARKER = "<!-- gatewright -->"
_NEW = commit_id("a new head")
#: How each forge names success.
_SUCCESS = "success"


async def an_open_request_is_returned_completely(world: World) -> Any:
    head = commit_id("feature")
    ref = f"refs/{'merge-requests' if world.kind == 'gitlab' else 'pull'}/{FEATURE}/head"
    wanted = ChangeRequest(FEATURE, head, "feature", ref, "main", "ana", False, "open", "Add a feature", "")
    return await world.forge.request(FEATURE) == wanted


async def a_request_from_a_fork_is_marked(world: World) -> Any:
    request = await world.forge.request(PATCH)
    return request is not None and request.fork and request.head_branch == "patch-1"


async def a_request_from_a_deleted_fork_is_marked(world: World) -> Any:
    world.state.requests[PATCH].fork_deleted = True
    request = await world.forge.request(PATCH)
    return request is not None and request.fork


async def a_closed_request_is_closed(world: World) -> Any:
    request = await world.forge.request(CLOSED)
    return request is not None and (request.state, request.merge_commit) == ("closed", None)


async def a_merged_request_names_its_merge(world: World) -> Any:
    request = await world.forge.request(MERGED)
    return request is not None and (request.state, request.merge_commit) == ("merged", world.state.branches["main"])


async def an_open_request_names_no_merge(world: World) -> Any:
    request = await world.forge.request(FEATURE)
    return request is not None and request.merge_commit is None


async def an_unknown_number_is_none(world: World) -> Any:
    return await world.forge.request(99) is None


async def a_moved_head_is_seen(world: World) -> Any:
    world.state.move_head(PATCH, _NEW)
    request = await world.forge.request(PATCH)
    return request is not None and request.head == _NEW


async def a_branch_without_requests_has_none(world: World) -> Any:
    return await world.forge.request_from("run-1", "main") is None


async def a_branch_with_an_open_request_has_it(world: World) -> Any:
    return await number_from(world, "feature") == FEATURE


async def a_branch_with_a_closed_request_has_it(world: World) -> Any:
    return await number_from(world, "old") == CLOSED


async def the_newest_request_of_a_branch_is_returned(world: World) -> Any:
    newest = world.state.open_by("ana", "old")
    return await number_from(world, "old") == newest.number


async def a_branch_of_the_same_name_in_a_fork_is_another(world: World) -> Any:
    world.state.open_by("acme", "run-1", fork=True)
    return await world.forge.request_from("run-1", "main") is None


async def a_request_to_another_base_is_another(world: World) -> Any:
    world.state.push("release", commit_id("release"))
    return await world.forge.request_from("feature", "release") is None


async def a_request_beyond_the_first_page_is_found(world: World) -> Any:
    for number in range(40):
        world.state.open_by("ana", f"later-{number}")
    return await number_from(world, "feature") == FEATURE


async def closed_requests_are_not_listed(world: World) -> Any:
    return sorted([request.number async for request in world.forge.open_requests()]) == [FEATURE, PATCH]


async def all_pages_of_open_requests_are_listed(world: World) -> Any:
    for number in range(70):
        world.state.open_by("ana", f"later-{number}")
    numbers = [request.number async for request in world.forge.open_requests()]
    return len(numbers) == 72 and len(set(numbers)) == 72


async def a_request_is_opened(world: World) -> Any:
    request = await world.forge.open_request("run-1", "main", "A title", "A body")
    shown = world.state.requests[request.number]
    return (shown.head, shown.title, shown.body, shown.author) == (RUN_HEAD, "A title", "A body", "gatewright-bot")


async def an_existing_request_is_returned_as_it_is(world: World) -> Any:
    request = await world.forge.open_request("feature", "main", "Another title", "")
    return (request.number, request.title, len(world.state.requests)) == (FEATURE, "Add a feature", 4)


async def a_closed_request_does_not_stand_for_a_new_one(world: World) -> Any:
    return (await world.forge.open_request("old", "main", "Again", "")).number == 5


async def a_closed_request_does_not_hide_a_refusal(world: World) -> Any:
    del world.state.branches["old"]
    await world.forge.open_request("old", "main", "Again", "")


async def a_request_from_a_missing_branch_is_refused(world: World) -> Any:
    return await world.forge.open_request("missing", "main", "A title", "")


async def a_lost_answer_to_an_opened_request_makes_no_second_one(world: World) -> Any:
    world.standin.fail(Fault("cut", method="POST", times=1, performed=True))
    with pytest.raises(UnavailableError):
        await world.forge.open_request("run-1", "main", "A title", "")
    again = await world.forge.open_request("run-1", "main", "A title", "")
    return again.number == len(world.state.requests) == 5


async def a_request_is_closed(world: World) -> Any:
    await world.forge.close_request(FEATURE)
    return world.state.requests[FEATURE].state == "closed"


async def a_closed_request_is_closed_without_a_call(world: World) -> Any:
    await world.forge.close_request(FEATURE)
    await world.forge.close_request(FEATURE)
    return len(world.standin.calls("PATCH") + world.standin.calls("PUT")) == 1


async def a_merged_request_stays_merged(world: World) -> Any:
    await world.forge.close_request(MERGED)
    return world.state.requests[MERGED].state == "merged"


async def an_unknown_request_cannot_be_closed(world: World) -> Any:
    await world.forge.close_request(99)


async def a_commit_without_checks_has_none(world: World) -> Any:
    return await world.forge.checks(RUN_HEAD) == {}


async def each_state_of_a_check_is_read_as_it_was_set(world: World) -> Any:
    for state in (*CheckState, CheckState.PENDING, CheckState.ERROR):
        check = Check(RUN_HEAD, state, f"It is {state.value}.", "https://gatewright.example/run")
        await world.forge.set_check("gatewright", check)
        assert await world.forge.checks(RUN_HEAD) == {"gatewright": check}
    return True


async def a_check_without_summary_and_link_is_set(world: World) -> Any:
    check = Check(RUN_HEAD, CheckState.PENDING, "")
    await world.forge.set_check("gatewright", check)
    return await world.forge.checks(RUN_HEAD) == {"gatewright": check}


async def a_repeated_check_changes_nothing(world: World) -> Any:
    check = Check(RUN_HEAD, CheckState.SUCCESS, "All gates passed.")
    for _ in range(2):
        await world.forge.set_check("gatewright", check)
    return await world.forge.checks(RUN_HEAD) == {"gatewright": check}


async def a_lost_answer_to_a_check_can_be_repeated(world: World) -> Any:
    check = Check(RUN_HEAD, CheckState.PENDING, "The run has started.")
    world.standin.fail(Fault("cut", method="POST", times=1, performed=True))
    with pytest.raises(UnavailableError):
        await world.forge.set_check("gatewright", check)
    await world.forge.set_check("gatewright", check)
    return await world.forge.checks(RUN_HEAD) == {"gatewright": check}


async def a_refused_check_is_not_taken_for_a_repeated_one(world: World) -> Any:
    await world.forge.set_check("gatewright", Check(RUN_HEAD, CheckState.PENDING, ""))
    world.standin.fail(Fault(status=400, method="POST", times=1))
    await world.forge.set_check("gatewright", Check(RUN_HEAD, CheckState.SUCCESS, ""))


async def checks_of_others_are_read(world: World) -> Any:
    world.state.statuses.append(Status(7, RUN_HEAD, "ci", _SUCCESS, "green", ""))
    return set(await world.forge.checks(RUN_HEAD)) == {"ci"}


async def an_unknown_state_of_a_check_is_no_success(world: World) -> Any:
    # GitLab has states that are not yet an outcome; the others none beside those that Gatewright sets.
    state = "waiting_for_resource" if world.kind == "gitlab" else "error"
    world.state.statuses.append(Status(7, RUN_HEAD, "ci", state, "", ""))
    return (await world.forge.checks(RUN_HEAD))["ci"].state in (CheckState.PENDING, CheckState.ERROR)


async def all_pages_of_checks_are_read(world: World) -> Any:
    for number in range(40):
        world.state.add_status(RUN_HEAD, f"ci-{number}", _SUCCESS, "", "")
    return len(await world.forge.checks(RUN_HEAD)) == 40


async def a_check_of_another_commit_is_not_read(world: World) -> Any:
    world.state.add_status(RUN_HEAD, "gatewright", _SUCCESS, "", "")
    return await world.forge.checks(commit_id("feature")) == {}


async def the_checks_of_an_unknown_commit_are_refused(world: World) -> Any:
    await world.forge.checks(_NEW)


async def a_check_of_an_unknown_commit_is_refused(world: World) -> Any:
    await world.forge.set_check("gatewright", Check(_NEW, CheckState.SUCCESS, ""))


async def a_request_without_comments_has_none(world: World) -> Any:
    return await world.forge.comment(FEATURE, MARKER) is None


async def a_comment_is_added_and_found(world: World) -> Any:
    added = await world.forge.add_comment(FEATURE, f"{MARKER}\nIt passed.")
    return await world.forge.comment(FEATURE, MARKER) == added


async def a_copied_marker_of_another_account_is_not_taken(world: World) -> Any:
    world.state.add_note(FEATURE, f"{MARKER}\nIt passed, says eve.", "eve")
    return await world.forge.comment(FEATURE, MARKER) is None


async def the_oldest_own_comment_is_returned(world: World) -> Any:
    first = await world.forge.add_comment(FEATURE, MARKER)
    await world.forge.add_comment(FEATURE, MARKER)
    return await world.forge.comment(FEATURE, MARKER) == first


async def a_comment_beyond_the_first_page_is_found(world: World) -> Any:
    for number in range(40):
        world.state.add_note(FEATURE, f"remark {number}", "ana")
    added = await world.forge.add_comment(FEATURE, MARKER)
    return await world.forge.comment(FEATURE, MARKER) == added


async def lines_of_a_comment_are_read_as_they_were_written(world: World) -> Any:
    body = f"{MARKER}\n/merge\n /approve\n  /usr/bin: no\ntext /close\n"
    added = await world.forge.add_comment(FEATURE, body)
    return added.body == body == getattr(await world.forge.comment(FEATURE, MARKER), "body", "")


async def a_comment_is_edited(world: World) -> Any:
    added = await world.forge.add_comment(FEATURE, MARKER)
    await world.forge.edit_comment(FEATURE, added.comment_id, f"{MARKER}\n/close")
    found = await world.forge.comment(FEATURE, MARKER)
    return found is not None and found.body == f"{MARKER}\n/close"


async def a_comment_of_another_account_cannot_be_edited(world: World) -> Any:
    note = world.state.add_note(FEATURE, "mine", "ana")
    await world.forge.edit_comment(FEATURE, note.note_id, "yours")


async def an_unknown_request_takes_no_comment(world: World) -> Any:
    await world.forge.add_comment(99, MARKER)


async def members_who_push_may_write(world: World) -> Any:
    return await world.forge.may_write("ana") and await world.forge.may_write("gatewright-bot")


async def readers_and_strangers_may_not_write(world: World) -> Any:
    return [await world.forge.may_write(login) for login in ("ben", "eve", "unknown")] == [False] * 3


async def a_login_cannot_lead_to_another_call(world: World) -> Any:
    logins = ("ana/permission", "../ana", "ana?x=", "ana#", "%2e%2e", "a\nb", "dependabot[bot]")
    return [await world.forge.may_write(login) for login in logins] == [False] * len(logins)


async def a_request_is_merged_at_its_head(world: World) -> Any:
    commit = await world.forge.merge(FEATURE, commit_id("feature"))
    return commit == world.state.branches["main"] == world.state.requests[FEATURE].merge_commit


async def a_merge_can_be_repeated(world: World) -> Any:
    first = await world.forge.merge(FEATURE, commit_id("feature"))
    return await world.forge.merge(FEATURE, commit_id("feature")) == first


async def a_lost_answer_to_a_merge_can_be_repeated(world: World) -> Any:
    method = "POST" if world.kind == "gitea" else "PUT"
    world.standin.fail(Fault("cut", method=method, times=1, performed=True))
    with pytest.raises(UnavailableError):
        await world.forge.merge(FEATURE, commit_id("feature"))
    return await world.forge.merge(FEATURE, commit_id("feature")) == world.state.branches["main"]


async def a_moved_head_is_not_merged(world: World) -> Any:
    world.state.push("feature", _NEW)
    try:
        await world.forge.merge(FEATURE, commit_id("feature"))
    finally:
        assert world.state.requests[FEATURE].state == "open"


async def a_request_that_was_merged_with_another_head_is_not_taken(world: World) -> Any:
    await world.forge.merge(MERGED, _NEW)


async def a_closed_request_is_not_merged(world: World) -> Any:
    await world.forge.merge(CLOSED, commit_id("old"))


async def an_unknown_request_is_not_merged(world: World) -> Any:
    await world.forge.merge(99, _NEW)


async def a_merge_that_the_rules_of_the_branch_refuse_is_refused(world: World) -> Any:
    body = b'{"message": "At least 1 approving review is required"}'
    world.standin.fail(Fault(status=405, body=body, path="/merge", times=1))
    await world.forge.merge(FEATURE, commit_id("feature"))


async def the_tree_of_a_commit_is_returned(world: World) -> Any:
    blob = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    names = {f"file-{number}": "100644" for number in range(40)} | {"a": "40000", "a.b": "100755", "a-b": "120000"}
    world.state.push("run-1", _NEW, {name.encode(): Blob(mode=mode, object_id=blob) for name, mode in names.items()})
    return await world.forge.tree_of(_NEW) == world.state.tree_id(_NEW)


async def an_unknown_commit_has_no_tree(world: World) -> Any:
    await world.forge.tree_of(_NEW)


async def number_from(world: World, branch: str) -> int | None:
    request = await world.forge.request_from(branch, "main")
    return None if request is None else request.number


#: By scenario: True, or the reason of the error.
SCENARIOS: dict[Scenario, bool | str] = {
    an_open_request_is_returned_completely: True,
    a_request_from_a_fork_is_marked: True,
    a_request_from_a_deleted_fork_is_marked: True,
    a_closed_request_is_closed: True,
    a_merged_request_names_its_merge: True,
    an_open_request_names_no_merge: True,
    an_unknown_number_is_none: True,
    a_moved_head_is_seen: True,
    a_branch_without_requests_has_none: True,
    a_branch_with_an_open_request_has_it: True,
    a_branch_with_a_closed_request_has_it: True,
    the_newest_request_of_a_branch_is_returned: True,
    a_branch_of_the_same_name_in_a_fork_is_another: True,
    a_request_to_another_base_is_another: True,
    a_request_beyond_the_first_page_is_found: True,
    closed_requests_are_not_listed: True,
    all_pages_of_open_requests_are_listed: True,
    a_request_is_opened: True,
    an_existing_request_is_returned_as_it_is: True,
    a_closed_request_does_not_stand_for_a_new_one: True,
    a_closed_request_does_not_hide_a_refusal: "forge_refused",
    a_request_from_a_missing_branch_is_refused: "forge_refused",
    a_lost_answer_to_an_opened_request_makes_no_second_one: True,
    a_request_is_closed: True,
    a_closed_request_is_closed_without_a_call: True,
    a_merged_request_stays_merged: True,
    an_unknown_request_cannot_be_closed: "forge_refused",
    a_commit_without_checks_has_none: True,
    each_state_of_a_check_is_read_as_it_was_set: True,
    a_check_without_summary_and_link_is_set: True,
    a_repeated_check_changes_nothing: True,
    a_lost_answer_to_a_check_can_be_repeated: True,
    a_refused_check_is_not_taken_for_a_repeated_one: "forge_refused",
    checks_of_others_are_read: True,
    an_unknown_state_of_a_check_is_no_success: True,
    all_pages_of_checks_are_read: True,
    a_check_of_another_commit_is_not_read: True,
    the_checks_of_an_unknown_commit_are_refused: "forge_refused",
    a_check_of_an_unknown_commit_is_refused: "forge_refused",
    a_request_without_comments_has_none: True,
    a_comment_is_added_and_found: True,
    a_copied_marker_of_another_account_is_not_taken: True,
    the_oldest_own_comment_is_returned: True,
    a_comment_beyond_the_first_page_is_found: True,
    lines_of_a_comment_are_read_as_they_were_written: True,
    a_comment_is_edited: True,
    a_comment_of_another_account_cannot_be_edited: "forge_refused",
    an_unknown_request_takes_no_comment: "forge_refused",
    members_who_push_may_write: True,
    readers_and_strangers_may_not_write: True,
    a_login_cannot_lead_to_another_call: True,
    a_request_is_merged_at_its_head: True,
    a_merge_can_be_repeated: True,
    a_lost_answer_to_a_merge_can_be_repeated: True,
    a_moved_head_is_not_merged: "head_moved",
    a_request_that_was_merged_with_another_head_is_not_taken: "head_moved",
    a_closed_request_is_not_merged: "forge_refused",
    an_unknown_request_is_not_merged: "forge_refused",
    a_merge_that_the_rules_of_the_branch_refuse_is_refused: "forge_refused",
    the_tree_of_a_commit_is_returned: True,
    an_unknown_commit_has_no_tree: "forge_refused",
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_every_forge_keeps_the_promises_of_the_port(scenario: Scenario, standin: Standin) -> None:
    wanted = SCENARIOS[scenario]
    async with world_of(standin) as world:
        if isinstance(wanted, str):
            with pytest.raises(DeniedError) as caught:
                await scenario(world)
            assert caught.value.reason == wanted
        else:
            assert await scenario(world) is wanted
