"""Detection and removal of secrets: one list of rules, a scanner's catalogue, redaction with a record."""

from gatewright.secrets.redaction import Redacted, Redaction, redact_output
from gatewright.secrets.scanner import Hit, SecretScanner
from gatewright.secrets.selection import make_scanner

__all__ = ["Hit", "Redacted", "Redaction", "SecretScanner", "make_scanner", "redact_output"]
