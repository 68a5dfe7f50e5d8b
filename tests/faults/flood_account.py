"""What became of every message of a flood, and of the processes that had to bear it: counts, and a table of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.faults.flood_messages import Shot

#: Bytes by which a process may have grown over a whole flood, however long it is.
GROWTH = 48 * 1024 * 1024
#: The same for the NATS server, which keeps the last blocks of each stream in memory, and garbage of messages of 8 MiB for a
#: while: it had grown by 63 MiB after 900 messages and by 72 after 10,000.
GROWTH_OF_SERVER = 128 * 1024 * 1024


@dataclass
class Account:
    """``fates``: how many of each kind of message came to what. ``wrong``: what no message should come to."""

    fates: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    honest: int = 0
    verified: int = 0
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def sent(self) -> int:
        return self.fates.total()

    def came_to(self, shot: Shot, fate: str) -> None:
        self.fates[shot.kind, fate] += 1
        if fate not in shot.fates:
            self.wrong.append(
                f"{shot.kind}: {fate}, not {'/'.join(sorted(shot.fates))}: {shot.headers.get('Nats-Msg-Id')} {shot.data[:80]!r}"
            )

    def grown(self) -> list[str]:
        bounds = {"nats-server": GROWTH_OF_SERVER}
        return [name for name, (before, after) in self.memory.items() if after - before > bounds.get(name, GROWTH)]

    @property
    def good(self) -> bool:
        return not (self.wrong or self.changed or self.grown()) and self.honest == self.verified > 0


def show(account: Account) -> str:
    """The counts as a table of plain text."""
    fates = sorted({fate for _, fate in account.fates})
    kinds = sorted({kind for kind, _ in account.fates})
    rows = [["", "sent", *fates]]
    for kind in kinds:
        counts = [account.fates[kind, fate] for fate in fates]
        rows.append([kind, str(sum(counts)), *(str(count or "") for count in counts)])
    totals = [sum(account.fates[kind, fate] for kind in kinds) for fate in fates]
    rows.append(["all", str(account.sent), *map(str, totals)])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.append(f"{account.sent / max(account.seconds, 0.001):.0f} messages a second; nothing left in the queues")
    mib = 1024 * 1024
    lines += [
        f"{name}: {before / mib:.0f} -> {after / mib:.0f} MiB" for name, (before, after) in sorted(account.memory.items())
    ]
    lines.append(f"processes that are not the same as before: {account.changed or 'none'}")
    lines.append(f"honest runs in between: {account.honest}, verified: {account.verified}")
    return "\n".join([*lines, *account.wrong[:20]])
