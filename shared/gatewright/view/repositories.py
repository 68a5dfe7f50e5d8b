"""Statistics of a repository, from the runs on the board: outcomes, makers, reasons, cost and duration. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from gatewright.budgets import BILLION, amount_words
from gatewright.view.board import Board
from gatewright.view.rows import BoardRow, span_of

#: Maximum number of reasons, most frequent first.
MOST_REASONS = 10


@dataclass(frozen=True, slots=True)
class MakerAccount:
    """How many ended runs with a change by ``maker`` (``command``, ``patch``, ``agent``, ...) landed."""

    maker: str
    landed: int
    ended: int

    @property
    def percent(self) -> int:
        return round(100 * self.landed / self.ended) if self.ended else 0


@dataclass(frozen=True, slots=True)
class RepositoryAccount:
    """Statistics of one repository.

    ``newest``: its runs, newest first. ``reasons``: codes of the runs that did not land, with counts.

    ``cost`` and ``tokens`` are formatted sums of reported usage, marked where they are lower bounds. ``to_land``: median and
    maximum of the seconds from acceptance to landing; None without a landed run. ``locks``: open runs that hold paths or wait
    for them.
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
    """Return the statistics of a repository; None where the board has no run of it."""
    rows = [row for row in board.rows.values() if row.repository == url]
    return _account(url, rows) if rows else None


def repository_accounts(board: Board) -> tuple[RepositoryAccount, ...]:
    """Return the statistics of every repository on the board, the one with the newest run first."""
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
