"""The seat of the domain goes to the owners of what is changed, by the operator's file alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.errors import ConfigurationError
from gatewright.services.gatekeeper.policies.load import load
from tests.attacks.people import open_inbox, policies_with
from tests.attacks.test_review import QUORUM, REVIEW, assert_verified, cast, standing, voters
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

BY_OWNER = REVIEW | {"quorum": QUORUM | {"role_counts": False, "by_owner": True}}
OWNERS = "# ours\n/src/ security\nREADME* architect\n"


async def test_a_change_waits_for_the_owner_of_what_it_changes(make_repository: MakeRepository, tmp_path: Path) -> None:
    clock = HandClock()
    async with open_inbox(make_repository(), tmp_path, BY_OWNER, clock=clock, people=voters(), owners=OWNERS) as inbox:
        run = await inbox.to_the_candidate()
        assert "of the domain (architect)" in (await inbox.asked()).why
        for person in ("owner", "security", "tester"):
            await cast(inbox, person, "green")
        assert (await standing(inbox)).blockers == ("no vote of the domain: architect",)
        assert inbox.gatekeeper.nothing_landed()
        await cast(inbox, "architect", "green")
        assert (await inbox.run()).status == "SUCCESS"
    assert [(found.reason, found.words) for found in run.found_reasons] == [("owners:3", "README* of architect: README.md")]
    assert_verified(tmp_path)


async def test_a_part_without_an_owner_is_the_domains(make_repository: MakeRepository, tmp_path: Path) -> None:
    clock, owners = HandClock(), "/src/ security\n* architect\nREADME.md\n"
    async with open_inbox(make_repository(), tmp_path, BY_OWNER, clock=clock, people=voters(), owners=owners) as inbox:
        await inbox.to_the_candidate()
        for person in ("architect", "security", "tester"):
            await cast(inbox, person, "green")
        assert (await standing(inbox)).blockers == ("no vote of the domain: owner",)
        await cast(inbox, "owner", "green")
        assert (await inbox.run()).status == "SUCCESS"


async def test_a_file_of_owners_in_the_target_repository_counts_for_nothing(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    files = {"README.md": b"a\n", "CODEOWNERS": b"* owner\n", ".github/CODEOWNERS": b"* owner\n"}
    repository = make_repository(files=files)
    async with open_inbox(repository, tmp_path, BY_OWNER, clock=HandClock(), people=voters(), owners=OWNERS) as inbox:
        await inbox.to_the_candidate()
        for person in ("owner", "security", "tester"):
            await cast(inbox, person, "green")
        assert (await standing(inbox)).blockers == ("no vote of the domain: architect",)


@pytest.mark.parametrize(
    ("owners", "words"),
    [
        (None, "uses by_owner, but"),
        ("* @nobody-here", "line 1: approvers.json has no person or group @nobody-here"),
        ("\n* ben", "line 2: ben has no vote"),
        ("!a owner", "line 1: !a"),
        ("\udcff owner", "CODEOWNERS"),
    ],
)
def test_an_owners_file_without_possible_voters_stops_the_gatekeeper(owners: str | None, words: str, tmp_path: Path) -> None:
    policies = policies_with(tmp_path / "policies", BY_OWNER, people=voters())
    if owners is not None:
        (policies / "CODEOWNERS").write_bytes(owners.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigurationError, match=words):
        load(policies)


def test_owners_stand_in_their_file_alone(tmp_path: Path) -> None:
    inline = QUORUM | {"by_owner": True, "owners": [{"line": 1, "pattern": "*", "owners": ["owner"]}]}
    policies = policies_with(tmp_path / "policies", REVIEW | {"quorum": inline}, people=voters())
    with pytest.raises(ConfigurationError, match="owners are listed in CODEOWNERS"):
        load(policies)
