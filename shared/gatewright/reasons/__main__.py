"""Print the page that lists every reason code: ``python -m gatewright.reasons > docs/reasons.md``."""

from __future__ import annotations

import sys

from gatewright.reasons.reference import reference

sys.stdout.write(reference())
