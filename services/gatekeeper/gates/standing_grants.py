"""Approvals in advance and the runs that used them: one bus table, changed by compare-and-set.

All gatekeepers share the table, so two of them cannot spend one use twice. A grant stays in it for as long as it could be
submitted again. An entry alone approves nothing: signature, roster and bounds are checked for each run.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from gatewright.bus.port import Bus
from gatewright.clock import timestamp
from gatewright.contracts import ApprovalGrant, GrantRevocation, codec
from gatewright.contracts.people.approvals import GrantStanding, GrantStatus, GrantUse, SignedDecision
from gatewright.errors import ConflictError, DeniedError
from gatewright.foreign_documents import read_json
from gatewright.rules.grants import JudgedGrant, check_revocation, document_digest

#: Key of the table; keys of locks are digests.
KEY = "grants"
#: Maximum number of valid grants.
MOST = 200
#: How long a grant stays listed after its end.
LISTED = timedelta(days=30)
_TRIES = 20


class GrantRecord(msgspec.Struct, frozen=True):
    """A submitted grant with its uses and its end."""

    signed: SignedDecision
    fingerprint: str
    recorded_at: str
    uses: tuple[GrantUse, ...] = ()
    revocation: SignedDecision | None = None
    revoked_at: str = ""

    @property
    def grant(self) -> ApprovalGrant:
        return codec.decode(self.signed.document.encode(), ApprovalGrant)

    def status(self, now: datetime) -> GrantStatus:
        """Return the status by the table. A key that was revoked since is detected when a run uses the grant."""
        grant = self.grant
        if self.revocation is not None:
            return "revoked"
        if datetime.fromisoformat(grant.not_after) <= now:
            return "expired"
        return "used_up" if len(self.uses) >= grant.max_uses else "standing"

    def standing(self, now: datetime) -> GrantStanding:
        """Return the entry as approvers see it."""
        by = "" if self.revocation is None else codec.decode(self.revocation.document.encode(), GrantRevocation).person
        return GrantStanding(
            grant=self.grant,
            grant_sha256=document_digest(self.signed),
            signed=self.signed,
            fingerprint=self.fingerprint,
            status=self.status(now),
            recorded_at=self.recorded_at,
            uses=self.uses,
            revocation=self.revocation,
            revoked_by=by,
            revoked_at=self.revoked_at,
        )


class GrantTable(msgspec.Struct, frozen=True):
    """All grants, in order of submission."""

    records: tuple[GrantRecord, ...] = ()

    def find(self, grant_id: str) -> GrantRecord | None:
        return next((each for each in self.records if each.grant.grant_id == grant_id), None)

    def put(self, record: GrantRecord) -> GrantTable:
        """Return the table with ``record`` replacing the record of the same id."""
        name = record.grant.grant_id
        return GrantTable(tuple(record if each.grant.grant_id == name else each for each in self.records))


class StandingGrants:
    """The table on the bus. Every method raises BusError when the bus does not answer, ConflictError after many attempts."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def listed(self) -> tuple[GrantRecord, ...]:
        """Return all stored grants."""
        return _table(await self._bus.kv_get(KEY)).records

    async def add(self, judged: JudgedGrant, now: datetime) -> GrantRecord:
        """Store a new grant.

        Raises:
            DeniedError: ``grant_known``, ``too_many_grants``.
        """
        record = GrantRecord(judged.signed, judged.fingerprint, timestamp(now))

        def change(table: GrantTable) -> GrantTable:
            if table.find(judged.grant.grant_id) is not None:
                raise DeniedError(f"{judged.grant.grant_id} was brought before", code="grant_known")
            kept = tuple(each for each in table.records if datetime.fromisoformat(each.grant.not_after) + LISTED > now)
            if sum(each.status(now) == "standing" for each in kept) >= MOST or len(kept) >= 5 * MOST:
                raise DeniedError(f"{MOST} grants stand, and no more may", code="too_many_grants")
            return GrantTable((*kept, record))

        await self._update_grants(change)
        return record

    async def revoke(self, signed: SignedDecision, revocation: GrantRevocation, now: datetime) -> GrantRecord:
        """End a grant.

        Raises:
            DeniedError: ``grant_unknown``, ``grant_over``, ``signing_time_wrong``.
        """

        def change(table: GrantTable) -> GrantTable:
            found = table.find(revocation.grant_id)
            if found is None or document_digest(found.signed) != revocation.grant_sha256:
                raise DeniedError(f"there is no grant {revocation.grant_id} of that digest", code="grant_unknown")
            if found.status(now) in {"revoked", "expired"}:
                raise DeniedError(f"{revocation.grant_id} is {found.status(now)}", code="grant_over")
            check_revocation(revocation, found.grant, now)
            return table.put(replace(found, revocation=signed, revoked_at=timestamp(now)))

        table = await self._update_grants(change)
        record = table.find(revocation.grant_id)
        if record is None:
            raise DeniedError(f"there is no grant {revocation.grant_id}", code="grant_unknown")
        return record

    async def claim(self, grant_id: str, run_id: str, subject: str, now: datetime) -> int:
        """Claim one use of a grant for this run and subject. Repeating a claim returns the same use.

        A claimed use stays spent, even if its run never continues.

        Returns:
            The number of the use, from 1; 0 when no use is left.
        """

        def change(table: GrantTable) -> GrantTable:
            found = table.find(grant_id)
            if found is None or _use(found, run_id, subject) or found.status(now) != "standing":
                return table
            return table.put(replace(found, uses=(*found.uses, GrantUse(run_id=run_id, subject=subject, at=timestamp(now)))))

        found = (await self._update_grants(change)).find(grant_id)
        if found is None or found.status(now) in {"revoked", "expired"}:
            return 0
        return _use(found, run_id, subject)

    async def _update_grants(self, change: Callable[[GrantTable], GrantTable]) -> GrantTable:
        for _ in range(_TRIES):
            stored = await self._bus.kv_get(KEY)
            table = _table(stored)
            changed = change(table)
            if changed == table:
                return table
            try:
                await self._bus.kv_put(KEY, msgspec.json.encode(changed), revision=stored[1] if stored else 0)
            except ConflictError:
                continue
            return changed
        raise ConflictError(f"the table of grants changed {_TRIES} times under us")


def _use(record: GrantRecord, run_id: str, subject: str) -> int:
    claimed = [(each.run_id, each.subject) for each in record.uses]
    return claimed.index((run_id, subject)) + 1 if (run_id, subject) in claimed else 0


def _table(stored: tuple[bytes, int] | None) -> GrantTable:
    return read_json(stored[0], GrantTable) if stored else GrantTable()
