"""A person who spells their own name in another way is still that person, everywhere people are compared."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.cli.run.change_source import read_branch
from gatewright.contracts.people.approvals import RosterPerson
from gatewright.contracts.people.identities import identities_of
from gatewright.contracts.vocabulary import Person
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.people.delegations import waited_for
from gatewright.rules.people.ownership import has_ordered, is_own
from gatewright.rules.quorum import names_person
from gatewright.services.gatekeeper.policies.load import load
from gatewright.ssh_signatures import public_line
from tests.attacks.people import KEYS, LANDING, open_inbox, policies_with, roster, signed
from tests.attacks.test_approvals import refused
from tests.attacks.whole_gatekeeper import RUN
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

ACCOUNT = "rené.ben@bücher.example"
SPELLINGS = {
    "upper case": "RENÉ.BEN@BÜCHER.EXAMPLE",
    "decomposed": unicodedata.normalize("NFD", ACCOUNT),
    "decomposed upper case": unicodedata.normalize("NFD", ACCOUNT.upper()),
    "punycode": "rené.ben@xn--bcher-kva.example",
    "punycode in capitals": "rené.ben@XN--BCHER-KVA.EXAMPLE",
    "trailing dot": "rené.ben@bücher.example.",
    "full width": "rené.ben\uff20bücher.example",
}
#: As an order names who ordered it, where more can be written than into a commit.
CLAIMS = SPELLINGS | {
    "as it is": ACCOUNT,
    "name and address": f"Ben <{ACCOUNT}>",
    "quoted name and address": f'"Ben, of release" <{ACCOUNT.upper()}>',
    "white space": f"\t {ACCOUNT} \n",
    "zero width": "ren\u200bé.ben@bücher\ufeff.example",
    "the name in the roster": "BEN",
    "the name in the roster with an address": "Ben <elsewhere@example.org>",
}


def people() -> dict[str, object]:
    known = roster()["people"]
    assert isinstance(known, list)
    ana, ben = known
    return {"version": "1", "people": [ana, {**ben, "accounts": [ACCOUNT]}]}


def ben() -> RosterPerson:
    known = people()["people"]
    assert isinstance(known, list)
    return RosterPerson(name="ben", keys=(), accounts=tuple(known[1]["accounts"]))


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS.keys())
async def test_the_author_approves_no_run_by_another_spelling(
    make_repository: MakeRepository, tmp_path: Path, spelled: str
) -> None:
    async with open_inbox(make_repository(), tmp_path, LANDING, clock=HandClock(), people=people()) as inbox:
        await inbox.to_the_candidate(author=Person(name="R. Ben", email=spelled))
        assert await refused(inbox, signed(await inbox.said("approve", "ben"), "ben")) == "approval_of_own_run"
        assert await refused(inbox, signed(await inbox.said("delegate", delegate_to="ben"))) == "approval_of_own_run"


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS.keys())
async def test_every_spelling_of_the_orderer_identifies_a_persons_own_run(
    make_repository: MakeRepository, tmp_path: Path, claim: str
) -> None:
    async with open_inbox(make_repository(), tmp_path, LANDING, clock=HandClock(), people=people()) as inbox:
        run = await inbox.submit()
        ordered = replace(run, accepted=replace(run.accepted, orderers=tuple(identities_of(claim))))
        claimed = replace(run, accepted=replace(run.accepted, requested_by=claim))
        for each in (ordered, claimed):
            assert has_ordered(each, ben())
            assert is_own(each, ben())
        assert not is_own(run, ben())


def test_a_rule_names_a_person_in_any_case() -> None:
    assert names_person(("BEN",), ben())
    assert not names_person(("@ben", "benedict"), ben())


def test_a_roster_with_one_person_twice_is_refused(tmp_path: Path) -> None:
    twice = people()
    known = twice["people"]
    assert isinstance(known, list)
    known.append({"name": "Ana", "keys": [{"key": public_line(KEYS["eve"])}]})
    with pytest.raises(ConfigurationError, match="Ana and ana"):
        load(policies_with(tmp_path / "policies", LANDING, people=twice))


def test_a_duo_of_one_person_is_refused(tmp_path: Path) -> None:
    quorum = {"domain": ["ana"], "quality": ["ben"], "duo": ["ana", "ANA"]}
    rule = LANDING | {"reason": "review", "quorum": quorum}
    with pytest.raises(ConfigurationError, match="two people"):
        load(policies_with(tmp_path / "policies", rule, people=people()))


async def test_a_decision_names_its_person_in_any_case(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_inbox(make_repository(), tmp_path, LANDING, clock=HandClock()) as inbox:
        await inbox.to_the_candidate()
        await inbox.decide(signed(await inbox.said("approve", "Ana")))
        assert (await inbox.run()).status == "SUCCESS"
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


async def test_delegating_to_yourself_in_another_spelling_is_refused(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_inbox(make_repository(), tmp_path, LANDING, clock=HandClock()) as inbox:
        await inbox.to_the_candidate()
        assert await refused(inbox, signed(await inbox.said("delegate", delegate_to="Ana"))) == "delegate_not_allowed"
        await inbox.decide(signed(await inbox.said("delegate", delegate_to="Ben")))
        assert await refused(inbox, signed(await inbox.said("approve", "ANA"))) == "approval_handed_on"
        (asked,) = (await inbox.run()).approvals.values()
        assert waited_for(("Ana", "@release"), asked.delegations) == ("ben", "@release")


async def test_the_maker_of_one_commit_of_several_is_a_maker(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    repository.git("checkout", "--quiet", "-b", "topic")
    for number, name in enumerate((f"Ben <{ACCOUNT.upper()}>", "Ana <ana@example.org>", f"Benedikt <{ACCOUNT}>")):
        (repository.path / "README.md").write_text(f"{number}\n")
        repository.git("commit", "--quiet", "-a", "-m", "more", f"--author={name}")
    source = read_branch(repository.path, "topic", "main").source
    assert source.authors == (f"Benedikt <{ACCOUNT}>", "Ana <ana@example.org>")
    repository.git("checkout", "--quiet", "main")
    async with open_inbox(repository, tmp_path, LANDING, clock=HandClock(), people=people()) as inbox:
        await inbox.to_the_candidate(source_branch=source)
        assert await refused(inbox, signed(await inbox.said("approve", "ben"), "ben")) == "approval_of_own_run"
