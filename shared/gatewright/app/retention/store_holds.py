"""Legal holds on bundles in a store: acts written once beside the bundles, and the store's own hold if it supports one.

The last act about a run applies. An unreadable act stops every removal (fail closed).
"""

from __future__ import annotations

from collections import defaultdict

from gatewright.contracts import LegalHold, codec
from gatewright.errors import ConfigurationError, MalformedError, UnavailableError
from gatewright.evidence.store.fetching import stored_pointer
from gatewright.evidence.store.objects import HOLDS, ObjectStore, archive_name, hold_name, pointer_name, tombstone_name

#: Maximum attempts to number an act when others are added concurrently.
_TRIES = 20


class StoreHoldBook:
    """The holds of one store. Any number of hosts may write: every act has a number that only one of them gets."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def held(self, run_id: str | None = None) -> dict[str, LegalHold]:
        """Run id -> the act that holds its bundle; of one run or of all.

        Raises ConfigurationError (``holds_unreadable``), StoreError.
        """
        last: dict[str, int] = defaultdict(int)
        for name in self._store.names(HOLDS if run_id is None else f"{HOLDS}{run_id}/"):
            of, number = _run_and_number(name)
            last[of] = max(last[of], number)
        acts = {of: self._act(of, number) for of, number in last.items()}
        return {of: act for of, act in acts.items() if act.act == "place"}

    def write(self, act: LegalHold) -> bool:
        """Append one act; return whether the store itself also holds or releases the bundle.

        A hold is written first and then set in the store; a release happens in reverse order, so that an interruption keeps
        the bundle. A hold during a removal either finds the tombstone, or the remover finds the hold. Raises MalformedError
        (``already_held``, ``not_held``), UnavailableError (``bundle_changed``), ConfigurationError, StoreError.
        """
        names = (archive_name(stored_pointer(self._store, act.run_id).manifest_sha256), pointer_name(act.run_id))
        held = act.run_id in self.held(act.run_id)
        if act.act == "place" and held:
            raise MalformedError(f"{act.run_id} is on hold already", code="already_held")
        if act.act == "release":
            if not held:
                raise MalformedError(f"{act.run_id} is not on hold", code="not_held")
            outcomes = [self._store.hold(name, on=False) for name in names]
            self._append(act)
            return all(outcomes)
        self._append(act)
        if self._store.read(tombstone_name(act.run_id)) is not None:
            words = f"{act.run_id} is being removed, or was: its tombstone stands"
            raise UnavailableError(words, code="bundle_changed")
        outcomes = [self._store.hold(name, on=True) for name in names]  # each of them, regardless of the first result
        return all(outcomes)

    def _append(self, act: LegalHold) -> None:
        for _ in range(_TRIES):
            numbers = [_run_and_number(name)[1] for name in self._store.names(f"{HOLDS}{act.run_id}/")]
            if self._store.create(hold_name(act.run_id, max(numbers, default=0) + 1), codec.encode(act) + b"\n", locked=True):
                return
        raise UnavailableError(f"the holds of {act.run_id} are being written by others", code="bundle_busy")

    def _act(self, run_id: str, number: int) -> LegalHold:
        data = self._store.read(hold_name(run_id, number))
        try:
            act = codec.decode(data or b"", LegalHold)
        except MalformedError as error:
            raise _unreadable(hold_name(run_id, number)) from error
        if act.run_id != run_id:
            raise _unreadable(hold_name(run_id, number))
        return act


def _run_and_number(name: str) -> tuple[str, int]:
    run_id, _, number = name.removeprefix(HOLDS).removesuffix(".json").partition("/")
    if not (number.isascii() and number.isdigit() and len(number) == 6 and name == hold_name(run_id, int(number))):
        raise _unreadable(name)
    return run_id, int(number)


def _unreadable(name: str) -> ConfigurationError:
    return ConfigurationError(f"{name[:300]!r} of the store is no act about a hold", code="holds_unreadable")
