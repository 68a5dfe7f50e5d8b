"""Recorded calls to models: written while a task runs, played back without a provider, matched by their canonical requests."""

from gatewright.models.cassettes.canonical import canonical_request
from gatewright.models.cassettes.cassette import Cassette, CassetteWriter, Recorded
from gatewright.models.cassettes.playback import SUFFIX, Playback, task_place

__all__ = [
    "SUFFIX",
    "Cassette",
    "CassetteWriter",
    "Playback",
    "Recorded",
    "canonical_request",
    "task_place",
    "without_measures",
]
