"""An inventory as a bill of materials: CycloneDX 1.6 and SPDX 2.3, both JSON. The same inventory gives the same bytes."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from gatewright.contracts import EnvironmentInventory, codec
from gatewright.contracts.inventory import InventoryPackage
from gatewright.environment_inventory.summary import summary_of, summary_words, unexplained
from gatewright.version import __version__

_NO_VALUE: Final = "NOASSERTION"
_HASHES: Final = {"sha1": "SHA-1", "sha256": "SHA-256", "sha384": "SHA-384", "sha512": "SHA-512"}


def cyclonedx(inventory: EnvironmentInventory, run_id: str, at: str) -> bytes:
    """Return the inventory in CycloneDX; ``at`` is when the commands ended."""
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    def component(number: int, package: InventoryPackage) -> Component:
        algorithm, _, digest = (package.archive or "").partition(":")
        return Component(
            name=package.name,
            version=package.version,
            purl=PackageURL.from_string(package.purl),
            bom_ref=f"{number} {package.purl}",
            licenses=[licences.make_from_string(package.licence)] if package.licence else (),
            hashes=[HashType(alg=HashAlgorithm(_HASHES[algorithm]), content=digest)] if algorithm in _HASHES else (),
            properties=[Property(name=f"gatewright:{name}", value=value) for name, value in _package_facts(package)],
        )

    licences = LicenseFactory()
    metadata = BomMetaData(timestamp=datetime.fromisoformat(at))
    metadata.tools.components.add(Component(type=ComponentType.APPLICATION, name="gatewright", version=__version__))
    bom = Bom(
        components=(component(*each) for each in _packages(inventory)),
        serial_number=_serial(inventory, run_id),
        metadata=metadata,
        properties=[Property(name=f"gatewright:{name}", value=value) for name, value in _measured(inventory, run_id)],
    )
    return f"{JsonV1Dot6(bom).output_as_string(indent=2)}\n".encode()


def spdx(inventory: EnvironmentInventory, run_id: str, at: str) -> bytes:
    """Return the inventory in SPDX; a licence that is no expression of SPDX is kept in the comment of its package."""
    created = {"created": f"{datetime.fromisoformat(at):%Y-%m-%dT%H:%M:%SZ}", "creators": [f"Tool: gatewright-{__version__}"]}
    whole = InventoryPackage(name=f"environment of {run_id}", version="", purl="")
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": run_id,
        "documentNamespace": f"urn:uuid:{_serial(inventory, run_id)}",
        "creationInfo": created,
        "comment": "; ".join(f"{name}: {value}" for name, value in _measured(inventory, run_id)),
        "packages": [_spdx_package(*each) for each in ((0, whole), *_packages(inventory))],
        "documentDescribes": ["SPDXRef-0"],
        "relationships": [
            {"spdxElementId": "SPDXRef-0", "relationshipType": "CONTAINS", "relatedSpdxElement": f"SPDXRef-{number}"}
            for number, _ in _packages(inventory)
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _spdx_package(number: int, package: InventoryPackage) -> dict[str, Any]:
    from cyclonedx.spdx import is_expression

    algorithm, _, digest = (package.archive or "").partition(":")
    known = package.licence if package.licence and is_expression(package.licence) else None
    facts = {**dict(_package_facts(package)), **({"licence": package.licence} if package.licence != known else {})}
    locator = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": package.purl}
    found = {
        "SPDXID": f"SPDXRef-{number}",
        "name": package.name,
        "versionInfo": package.version,
        "downloadLocation": _NO_VALUE,
        "filesAnalyzed": False,
        "checksums": [{"algorithm": algorithm.upper(), "checksumValue": digest}] if algorithm in _HASHES else [],
        "licenseConcluded": _NO_VALUE,
        "licenseDeclared": known or _NO_VALUE,
        "copyrightText": _NO_VALUE,
        "externalRefs": [locator] if package.purl else [],
        "comment": "; ".join(f"{name}: {value}" for name, value in facts.items()),
    }
    return {name: value for name, value in found.items() if value not in ("", [])}


def _packages(inventory: EnvironmentInventory) -> Iterator[tuple[int, InventoryPackage]]:
    return enumerate((package for tree in inventory.trees for package in tree.packages), 1)


def _package_facts(package: InventoryPackage) -> Iterator[tuple[str, str]]:
    module = package.archive if package.archive and package.archive.startswith("h1:") else None
    direct = None if package.direct is None else str(package.direct).lower()
    facts = {"content_sha256": package.content_sha256, "module": module, "source": package.source, "direct": direct}
    return ((name, value) for name, value in facts.items() if value)


def _measured(inventory: EnvironmentInventory, run_id: str) -> Iterator[tuple[str, str]]:
    summary = summary_words(summary_of(inventory, codec.encode(inventory)))
    return iter((("run", run_id), ("environment", summary), *unexplained(inventory)))


def _serial(inventory: EnvironmentInventory, run_id: str) -> uuid.UUID:
    return uuid.UUID(bytes=hashlib.sha256(codec.encode(inventory) + run_id.encode()).digest()[:16], version=4)


#: Documents of other systems that an inventory is printed as, by name.
EXPORTS: Final[dict[str, Callable[[EnvironmentInventory, str, str], bytes]]] = {"cyclonedx": cyclonedx, "spdx": spdx}
