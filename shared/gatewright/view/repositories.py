"""A repository by the runs that the board keeps: how they ended, who made changes, why not, for how much, how long. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from gatewright.budgets import BILLION, amount_words
from gatewright.view.board import Board
from gatewright.view.rows import BoardRow, span_of

#: Reasons that are named, the most frequent first.
MOST_REASONS = 10


@dataclass(frozen=True, slots=True)
class MakerAccount:
    """How often a change by ``maker`` (``command``, ``patch``, ``agent``, ...) landed, of those that have ended."""

    maker: str
    landed: int
    ended: int

    @property
    def percent(self) -> int:
        return round(100 * self.landed / self.ended) if self.ended else 0


@dataclass(frozen=True, slots=True)
class RepositoryAccount:
    """``newest``: its runs, the newest first. ``reasons``: codes of those that did not land, with their number.

    ``cost`` and ``tokens`` are sums of what was reported, in words that name lower bounds. ``to_land``: seconds from
    acceptance to the end of runs that landed, as the median and the longest; None where none did. ``locks``: open runs that
    hold paths, or wait for them.
    """

    url: str
    newest: tuple[BoardRow, ...]
    open: int
    landed: int
    failed: int
    makers: tuple[MakerAccount, ...]
    reasons: tuple[tuple[str, int], ...]
    cost: str
    tokens: str
    to_land: tuple[float, float] | None
    locks: tuple[BoardRow, ...]


def repository_account(board: Board, url: str) -> RepositoryAccount | None:
    """What the board knows of a repository; None where it has no run of it."""
    rows = [row for row in board.rows.values() if row.repository == url]
    return _account(url, rows) if rows else None


def repository_accounts(board: Board) -> tuple[RepositoryAccount, ...]:
    """Every repository that the board has a run of, the one with the newest run first."""
    rows: defaultdict[str, list[BoardRow]] = defaultdict(list)
    for row in board.rows.values():
        rows[row.repository].append(row)
    found = (_account(url, each) for url, each in rows.items())
    return tuple(sorted(found, key=lambda each: each.newest[0].order, reverse=True))


def _account(url: str, found: Iterable[BoardRow]) -> RepositoryAccount:
    rows = sorted(found, key=lambda row: row.order, reverse=True)
    landed = [row for row in rows if row.stage == "landed"]
    failed = [row for row in rows if row.stage == "failed"]
    spans = [span_of(row) for row in landed if row.finished_at]
    return RepositoryAccount(
        url=url,
        newest=tuple(rows),
        open=sum(row.is_open for row in rows),
        landed=len(landed),
        failed=len(failed),
        makers=_makers([*landed, *failed]),
        reasons=tuple(Counter(row.code for row in failed if row.code).most_common(MOST_REASONS)),
        cost=_sum(rows, "cost_usd", "USD", sum(row.nano_usd for row in rows) / BILLION),
        tokens=_sum(rows, "tokens", "tokens", sum(row.tokens for row in rows)),
        to_land=(median(spans), max(spans)) if spans else None,
        locks=tuple(row for row in rows if row.is_open and (row.locked or row.holders)),
    )


def _sum(rows: Iterable[BoardRow], name: str, unit: str, amount: float) -> str:
    return amount_words(round(amount, 2), unit, least=any(name in row.least for row in rows))


def _makers(rows: Iterable[BoardRow]) -> tuple[MakerAccount, ...]:
    ended: Counter[str] = Counter()
    landed: Counter[str] = Counter()
    for row in rows:
        ended[row.maker] += 1
        landed[row.maker] += row.stage == "landed"
    return tuple(MakerAccount(maker, landed[maker], number) for maker, number in ended.most_common())
