"""How long tests wait for what has to come."""

from __future__ import annotations

#: Seconds that something may take which has to come, on however busy a machine. No test counts on its coming sooner.
PATIENCE = 300.0
