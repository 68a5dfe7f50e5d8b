"""The client library of publishers: submit requests and contracts, follow runs, fetch artifacts."""

from gatewright.client.client import Client, inline_artifact
from gatewright.client.sync import SyncClient

__all__ = ["Client", "SyncClient", "inline_artifact"]
