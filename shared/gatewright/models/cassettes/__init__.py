"""Recorded calls to models: written while a task runs, played back without a provider, matched by their canonical requests."""

from gatewright.models.cassettes.canonical import canonical_request
from gatewright.models.cassettes.cassette import Cassette, Recorded
from gatewright.models.cassettes.folder import CassetteFolder

__all__ = ["Cassette", "CassetteFolder", "Recorded", "canonical_request"]
