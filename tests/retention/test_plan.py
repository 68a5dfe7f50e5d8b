"""What goes and what stays: every rule that keeps wins, and what does not verify is never removed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gatewright.app.retention.holds import BOOK, HoldBook
from gatewright.app.retention.plan import RetentionPolicy
from gatewright.contracts import LegalHold
from gatewright.evidence.tombstone import FILE
from gatewright.run.state import run_id_of
from tests.retention.conftest import House


def hold(house: House, bundle: Path, act: str = "place") -> None:
    HoldBook(house.home).write(
        LegalHold(run_id=bundle.name, act=act, reason="case 1", by="counsel", at="2026-05-01T00:00:00Z")  # type: ignore[arg-type]  # a literal
    )


def test_empty_home_has_an_empty_plan(house: House) -> None:
    assert house.actions() == {}


def test_old_bundles_go_and_young_ones_stay(house: House) -> None:
    old, young = house.seal(1, days_old=31), house.seal(2, days_old=29)
    policy = RetentionPolicy(keep_last=0, keep_days=30, keep_failed_days=90)
    assert house.actions(policy) == {old.name: "prune", young.name: "keep"}


@pytest.mark.parametrize("name", ["failed", "aborted"])
def test_failed_and_aborted_ones_stay_longer(house: House, name: str) -> None:
    good, bad, old = house.seal(1, days_old=40), house.seal(2, name, days_old=40), house.seal(3, name, days_old=91)
    policy = RetentionPolicy(keep_last=0, keep_days=30, keep_failed_days=90)
    assert house.actions(policy) == {good.name: "prune", bad.name: "keep", old.name: "prune"}


def test_the_last_ones_stay_whatever_their_age(house: House) -> None:
    bundles = [house.seal(number, days_old=1000 - number) for number in range(4)]
    policy = RetentionPolicy(keep_last=2, keep_days=0, keep_failed_days=0)
    assert house.actions(policy) == dict(zip([b.name for b in bundles], ["prune", "prune", "keep", "keep"], strict=True))


def test_bundle_on_hold_stays_until_it_is_released(house: House) -> None:
    bundle = house.seal(1)
    hold(house, bundle)
    (item,) = house.collector().plan()
    assert item.action == "keep"
    assert "case 1" in item.why
    assert house.collect() == {}
    hold(house, bundle, "release")
    assert house.actions() == {bundle.name: "prune"}


def test_hold_that_comes_after_the_plan_still_counts(house: House) -> None:
    bundle = house.seal(1)
    collector = house.collector()
    plan = collector.plan()
    hold(house, bundle)
    (done,) = collector.carry_out(plan, house.signer)
    assert done.code == "bundle_changed"
    assert (bundle / "manifest.json").exists()


def test_open_or_unsealed_run_is_never_removed(house: House) -> None:
    bundle = house.seal(1)
    (bundle / "manifest.json").unlink()
    other = house.seal(2)
    (other / "manifest.dsse.json").unlink()
    assert set(house.actions().values()) == {"keep"}
    assert house.collect() == {}


@pytest.mark.parametrize("damage", ["flip", "add", "remove"])
def test_altered_bundle_is_kept_for_inspection(house: House, damage: str) -> None:
    bundle = house.seal(1)
    target = bundle / "patch.diff"
    if damage == "flip":
        target.chmod(0o644)
        target.write_bytes(target.read_bytes()[:-1] + b"X")
    elif damage == "add":
        (bundle / "more.txt").write_text("x")
    else:
        target.unlink()
    (item,) = house.collector().plan()
    assert item.action == "keep"
    assert "does not verify" in item.why
    assert house.collect() == {}


def test_bundle_of_a_strangers_key_is_kept(house: House, tmp_path: Path) -> None:
    from gatewright.evidence.signing import keys

    bundle = house.seal(1)
    stranger = House(house.home, keys.create(tmp_path / "stranger.pem"))
    assert stranger.actions() == {bundle.name: "keep"}


def test_bundle_under_another_name_is_kept(house: House) -> None:
    bundle = house.seal(1)
    bundle.rename(bundle.with_name("run-otherotherother1"))
    assert house.actions() == {"run-otherotherother1": "keep"}


def test_links_are_not_followed(house: House, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(house.seal(1), elsewhere)
    (house.root / run_id_of("1")).symlink_to(elsewhere)
    inside = house.seal(2)
    (inside / "link").symlink_to(elsewhere)
    assert set(house.actions().values()) == {"keep"}
    assert house.collect() == {}
    assert (elsewhere / "manifest.json").exists()


def test_pruned_bundle_keeps_its_tombstone_and_is_not_pruned_again(house: House) -> None:
    bundle = house.seal(1)
    assert house.collect() == {bundle.name: ""}
    assert [path.name for path in bundle.iterdir()] == [FILE]
    assert house.actions() == {bundle.name: "keep"}


def test_book_of_holds_that_cannot_be_read_stops_everything(house: House) -> None:
    from gatewright.errors import ConfigurationError

    bundle = house.seal(1)
    for content in (b"not json\n", b'{"run_id":"run-0', b"\n"):
        (house.home / BOOK).write_bytes(content)
        with pytest.raises(ConfigurationError) as refusal:
            house.actions()
        assert refusal.value.reason == "holds_unreadable"
    assert (bundle / "manifest.json").exists()


def test_a_hold_outlives_the_home_as_long_as_the_bundles_do(house: House) -> None:
    """Of a pod that is started anew the volume with the bundles is all that is left."""
    held, other = house.seal(1), house.seal(2)
    hold(house, held)
    fresh = replace(house, home=house.home.parent / "fresh")
    fresh.home.mkdir()
    house.root.rename(fresh.root)
    assert fresh.actions() == {held.name: "keep", other.name: "prune"}
    assert fresh.collect() == {other.name: ""}
