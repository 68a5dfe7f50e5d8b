"""Environments that the owner of a stack offers while it runs: whose word counts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gatewright.contracts.vocabulary import Environment
from gatewright.errors import ConfigurationError, DeniedError, MalformedError
from gatewright.sandbox.offers import MOST_OFFERS, OFFERS_FILE, ListedEnvironments, add_offers, clear_offers, read_offers
from gatewright.tasks.inputs import environment_prefix


@pytest.fixture
def offers(tmp_path: Path) -> Path:
    return tmp_path / OFFERS_FILE


def refuses(listed: ListedEnvironments, prefix: str) -> bool:
    try:
        return environment_prefix(Environment(prefix=prefix), listed) is None
    except DeniedError as error:
        return error.reason == "environment_not_allowed"


def test_an_environment_that_the_owner_offers_later_is_allowed(offers: Path) -> None:
    listed = ListedEnvironments((Path("/opt/one"),), offers)
    assert refuses(listed, "/srv/two")
    add_offers(offers, (Path("/srv/two"),))
    assert not refuses(listed, "/srv/two")
    assert not refuses(listed, "/opt/one")
    assert refuses(listed, "/srv/two/lib")
    assert (tuple(listed), len(listed), listed[1]) == ((Path("/opt/one"), Path("/srv/two")), 2, Path("/srv/two"))


def test_a_system_that_takes_no_offers_allows_none(offers: Path) -> None:
    add_offers(offers, (Path("/srv/two"),))
    assert refuses(ListedEnvironments(()), "/srv/two")


def test_an_offer_is_private_and_ends_with_its_stack(offers: Path) -> None:
    add_offers(offers, (Path("/srv/two"),))
    assert offers.stat().st_mode & 0o777 == 0o600
    clear_offers(offers)
    assert refuses(ListedEnvironments((), offers), "/srv/two")


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o666])
def test_a_file_that_others_could_have_written_or_read_offers_nothing(offers: Path, mode: int) -> None:
    add_offers(offers, (Path("/srv/two"),))
    offers.chmod(mode)
    assert refuses(ListedEnvironments((), offers), "/srv/two")
    with pytest.raises(ConfigurationError, match="not a private file of yours"):
        add_offers(offers, (Path("/srv/three"),))


def test_a_link_in_the_place_of_the_file_offers_nothing(offers: Path, tmp_path: Path) -> None:
    add_offers(tmp_path / "elsewhere", (Path("/srv/two"),))
    offers.symlink_to(tmp_path / "elsewhere")
    assert refuses(ListedEnvironments((), offers), "/srv/two")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"environments": 3}', b"\xff", b'{"environments": ["\\u0000", "relative/x"]}']
)
def test_what_is_no_list_of_paths_offers_nothing(offers: Path, content: bytes) -> None:
    offers.write_bytes(content)
    offers.chmod(0o600)
    assert read_offers(offers) == ()


def test_more_offers_than_a_stack_takes_are_refused(offers: Path) -> None:
    with pytest.raises(MalformedError, match="gatewright down"):
        add_offers(offers, [Path(f"/srv/{number}") for number in range(MOST_OFFERS + 1)])
    assert not offers.exists()


async def test_two_commands_that_offer_at_once_lose_nothing(offers: Path) -> None:
    await asyncio.gather(*(asyncio.to_thread(add_offers, offers, (Path(f"/srv/{number}"),)) for number in range(20)))
    assert len(json.loads(offers.read_text())["environments"]) == 20
