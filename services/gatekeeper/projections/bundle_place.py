"""Location of sealed bundles by the gatekeeper's settings: a folder of its home, or a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gatewright.errors import ConfigurationError, StoreError
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.store.address import StoreAddress, parse_store
from gatewright.evidence.store.fetching import open_store
from gatewright.evidence.store.objects import ObjectStore
from gatewright.evidence.store.policy import STORES_FILE
from gatewright.evidence.store.publishing import BundlePublisher
from gatewright.evidence.store.storing_writer import StoringWriter
from gatewright.evidence.writer import BundleWriter
from gatewright.services.gatekeeper.projections.bundle_archives import BundleArchives
from gatewright.services.gatekeeper.settings import Settings


@dataclass(frozen=True, slots=True)
class BundlePlace:
    """Location of bundles: below ``root``, or in ``store`` at ``address``; ``locked``: whether the store locks objects."""

    root: Path
    outgoing: Path
    address: StoreAddress | None = None
    store: ObjectStore | None = None
    locked: bool = False

    @classmethod
    def of(cls, settings: Settings) -> BundlePlace:
        """Read the location from the settings.

        Raises:
            ConfigurationError: the store's URL or ``stores.json`` is invalid.
        """
        root, outgoing = settings.home / "runs", settings.home / "outgoing"
        if settings.bundle_store is None:
            return cls(root, outgoing)
        try:
            address, policy = parse_store(settings.bundle_store), STORES_FILE.load(settings.policies).policy
            return cls(root, outgoing, address, open_store(address, policy), policy.entry(address).lock is not None)
        except StoreError as error:
            raise ConfigurationError(error.message, code=error.reason) from error

    def writer(self, trusted: Callable[[], Sequence[PublicKey]]) -> BundleWriter:
        if self.address is None or self.store is None:
            return BundleWriter(self.root)
        publisher = BundlePublisher(self.store, self.outgoing, trusted, locked=self.locked)
        return StoringWriter(self.root, self.address, publisher)

    def archives(self) -> BundleArchives:
        return BundleArchives(self.root, self.outgoing, self.store, self.address)
