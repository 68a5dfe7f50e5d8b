"""S3 client for bundles, using botocore: conditional writes, object lock, legal holds. Redirects are not followed.

Credentials are read by reference when the client is created. Errors contain the store, the object and a protocol code, never
other text of the server.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, TypeVar

from gatewright.clock import Clock, SystemClock
from gatewright.errors import ConfigurationError, StoreError
from gatewright.evidence.store.address import StoreAddress
from gatewright.evidence.store.bounded_body import DOWNLOAD_SECONDS, MAX_REPLY_BYTES, REPLY_SECONDS, BoundedBody
from gatewright.evidence.store.objects import (
    MAX_ARCHIVE_BYTES,
    MAX_LISTED,
    MAX_RECORD_BYTES,
    ObjectLock,
    StoredObject,
    media_type,
)
from gatewright.evidence.store.policy import STORES_FILE, StoreEntry
from gatewright.policy_files import KeyOwner

_OWNER: Final = KeyOwner(f"the store ({STORES_FILE})", "store_credentials_missing")
_CONNECT_SECONDS, _READ_SECONDS, _TRIES = 5, 20, 3
_BLOCK = 1 << 16
#: Responses of a store without object lock, or without one for this bucket or object.
_NO_LOCKS = frozenset(
    {"NoSuchObjectLockConfiguration", "ObjectLockConfigurationNotFoundError", "InvalidRequest", "NotImplemented"}
    | {"MethodNotAllowed", "XNotImplemented"}
)
#: Exceptions of botocore's parser: for invalid times, or endlessly nested elements.
_UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
_CODE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

T = TypeVar("T")


class S3Store:
    """The objects below ``address``. Created by ``open``; thread-safe."""

    def __init__(self, address: StoreAddress, entry: StoreEntry, client: Any, errors: Any, clock: Clock) -> None:
        self._address = address
        self._entry = entry
        self._client = client
        self._errors = errors
        self._clock = clock

    @classmethod
    def open(cls, address: StoreAddress, entry: StoreEntry, clock: Clock | None = None) -> S3Store:
        """Open the store at ``address``.

        Raises:
            StoreError: ``store_client_missing``, ``store_credentials_missing``, ``store_refused``.
        """
        try:
            # Needed by few installations, and optional.
            config = importlib.import_module("botocore.config")
            errors = importlib.import_module("botocore.exceptions")
            sessions = importlib.import_module("botocore.session")
            transport = importlib.import_module("botocore.httpsession")
            anonymous = importlib.import_module("botocore").UNSIGNED
        except ImportError:
            raise StoreError("the client of S3 stores is not installed", code="store_client_missing") from None
        try:
            session = sessions.Session()
            session.register_component("data_loader", _loader())
            keys = _credentials(entry)
            if entry.credentials != "workload":
                # Files of the process's account contain no settings for bundle stores.
                session.set_config_variable("config_file", os.devnull)
                session.set_config_variable("credentials_file", os.devnull)
            trusted = str(entry.ca_file) if entry.ca_file is not None else True
            settings: dict[str, Any] = {
                "s3": {"addressing_style": entry.addressing, "payload_signing_enabled": True},
                "connect_timeout": _CONNECT_SECONDS,
                "read_timeout": _READ_SECONDS,
                "retries": {"total_max_attempts": _TRIES, "mode": "standard"},
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
                "ignore_configured_endpoint_urls": True,
                "signature_version": anonymous if entry.credentials is None else "s3v4",
            }
            client = session.create_client(
                "s3",
                region_name=entry.region,
                endpoint_url=entry.endpoint,
                verify=trusted,
                config=config.Config(**settings),
                **keys,
            )
            wire = transport.URLLib3Session(
                verify=trusted,
                proxies=importlib.import_module("botocore.utils").get_environ_proxies(client.meta.endpoint_url),
                timeout=(_CONNECT_SECONDS, _READ_SECONDS),
            )
        except (errors.BotoCoreError, ValueError, OSError) as error:
            raise StoreError(f"{address}: the client cannot be made: {type(error).__name__}", code="store_refused") from None
        client.meta.events.register("before-send.s3", lambda request, **_: _send(wire, request))
        client.meta.events.register_last("before-parameter-build.s3", _stay_here)
        return cls(address, entry, client, errors, clock or SystemClock())

    def read(self, name: str) -> bytes | None:
        found = self._get(name)
        if found is None:
            return None
        with contextlib.closing(found["Body"]) as body:
            blocks, size = [], 0
            for block in self._blocks(name, body):
                size += len(block)
                if size > MAX_RECORD_BYTES:
                    raise self._failure_error(
                        name, "stored_bundle_too_large", f"more than {MAX_RECORD_BYTES} bytes are no record"
                    )
                blocks.append(block)
        return b"".join(blocks)

    def download(self, name: str, file: IO[bytes], limit: int) -> StoredObject | None:
        found = self._get(name)
        if found is None:
            return None
        digest, size = hashlib.sha256(), 0
        with contextlib.closing(found["Body"]) as body:
            for block in self._blocks(name, body):
                size += len(block)
                if size > limit:
                    raise self._failure_error(
                        name, "stored_bundle_too_large", f"the store sends more than the {limit} bytes of it"
                    )
                digest.update(block)
                file.write(block)
        return StoredObject(size, digest.hexdigest(), _lock(found))

    def create(self, name: str, source: Path | bytes, *, locked: bool = False) -> bool:
        lock: dict[str, Any] = {}
        if locked and self._entry.lock is not None:
            until = self._clock.now().astimezone(UTC) + timedelta(days=self._entry.lock.days)
            lock = {"ObjectLockMode": self._entry.lock.mode.upper(), "ObjectLockRetainUntilDate": until}
        with contextlib.ExitStack() as stack:
            body: bytes | BinaryIO = source if isinstance(source, bytes) else stack.enter_context(source.open("rb"))
            digest = base64.b64encode(_digest_source(source)).decode()
            try:
                self._client.put_object(
                    Bucket=self._address.authority,
                    Key=self._address.key(name),
                    Body=body,
                    IfNoneMatch="*",
                    # Both are needed: a bucket with object lock rejects locked objects without a named algorithm.
                    ChecksumAlgorithm="SHA256",
                    ChecksumSHA256=digest,
                    ContentType=media_type(name),
                    **lock,
                )
            except self._errors.ClientError as error:
                status, code = _status_and_code(error)
                if status == 412:
                    return False
                if status == 409:
                    raise self._failure_error(name, "store_unreachable", "another write of it is under way") from None
                if lock and (code in _NO_LOCKS or status == 501):
                    raise self._failure_error(name, "store_lock_refused", f"the store locks no object here ({code})") from None
                if status == 501:
                    raise self._failure_error(name, "store_not_write_once", "the store knows no conditional writes") from None
                raise self._refusal_error(name, error) from None
            except (self._errors.BotoCoreError, OSError, *_UNREADABLE) as error:
                raise self._unreachable(name, error) from None
        return True

    def names(self, prefix: str) -> Iterator[str]:
        own = self._address.key("")
        token: dict[str, str] = {}
        seen = 0
        while True:
            wanted = {"Bucket": self._address.authority, "Prefix": self._address.key(prefix), **token}
            page: Mapping[str, Any] = self._call_store(prefix, functools.partial(self._client.list_objects_v2, **wanted)) or {}
            for entry in page.get("Contents", ()):
                seen += 1
                name = str(entry.get("Key", ""))
                if seen > MAX_LISTED or not name.startswith(self._address.key(prefix)):
                    raise self._failure_error(prefix, "stored_bundle_too_large", "the list of the store cannot be right")
                yield name.removeprefix(own)
            following = page.get("NextContinuationToken")
            if not page.get("IsTruncated") or not following or following == token.get("ContinuationToken"):
                return
            token = {"ContinuationToken": following}

    def lock_of(self, name: str) -> ObjectLock | None:
        wanted = {"Bucket": self._address.authority, "Key": self._address.key(name)}
        found = self._call_store(name, lambda: self._client.head_object(**wanted), missing=("404", "NoSuchKey"))
        return None if found is None else _lock(found)

    def hold(self, name: str, *, on: bool) -> bool:
        """Only where the bucket reports object lock: a server without holds may treat the request as a new object."""
        if not self._has_lock():
            return False
        wanted = {"Bucket": self._address.authority, "Key": self._address.key(name)}
        status = {"LegalHold": {"Status": "ON" if on else "OFF"}}
        done = self._call_store(
            name, lambda: self._client.put_object_legal_hold(**wanted, **status), missing=(*_NO_LOCKS, "NoSuchKey", "404")
        )
        return done is not None

    def _has_lock(self) -> bool:
        bucket = self._address.authority
        missing = (*_NO_LOCKS, "NoSuchKey", "404", "501")
        configuration = self._call_store("", lambda: self._client.get_object_lock_configuration(Bucket=bucket), missing=missing)
        return bool((configuration or {}).get("ObjectLockConfiguration", {}).get("ObjectLockEnabled") == "Enabled")

    def remove(self, name: str) -> None:
        """Remove every version where the bucket keeps versions: a delete marker alone would leave the bytes.

        Objects from before versioning have the version ``null`` and need it as their version id.
        """
        key = self._address.key(name)
        wanted = {"Bucket": self._address.authority, "Prefix": key}
        page = self._call_store(name, lambda: self._client.list_object_versions(**wanted), missing=("NotImplemented", "501"))
        versions = [
            {"VersionId": str(each["VersionId"])}
            for kind in ("Versions", "DeleteMarkers")
            for each in (page or {}).get(kind, ())
            if each.get("Key") == key and each.get("VersionId")
        ]
        for version in versions or [{}]:
            where = {"Bucket": self._address.authority, "Key": key, **version}
            try:
                self._call_store(name, functools.partial(self._client.delete_object, **where), missing=("404", "NoSuchKey"))
            except StoreError as error:
                if error.reason != "store_denied":
                    raise
                raise self._failure_error(name, "store_locked", "the store does not let it be removed") from None

    def _get(self, name: str) -> Mapping[str, Any] | None:
        wanted = {"Bucket": self._address.authority, "Key": self._address.key(name)}
        return self._call_store(name, lambda: self._client.get_object(**wanted), missing=("404", "NoSuchKey"))

    def _call_store(self, name: str, call: Callable[[], T], missing: tuple[str, ...] = ()) -> T | None:
        """Return the result of ``call``; None for an error with one of the codes ``missing``."""
        try:
            return call()
        except self._errors.ClientError as error:
            if _status_and_code(error)[1] in missing:
                return None
            raise self._refusal_error(name, error) from None
        except (self._errors.BotoCoreError, OSError, *_UNREADABLE) as error:
            raise self._unreachable(name, error) from None

    def _blocks(self, name: str, body: Any) -> Iterator[bytes]:
        try:
            while block := body.read(_BLOCK):
                yield block
        except (self._errors.BotoCoreError, OSError) as error:
            raise self._unreachable(name, error) from None

    def _refusal_error(self, name: str, error: Any) -> StoreError:
        status, code = _status_and_code(error)
        words = f"the store answers {status} ({code})"
        if 300 <= status < 400:
            return self._failure_error(name, "store_redirects", f"{words}: it lies elsewhere, and that is not followed")
        if status in {401, 403}:
            return self._failure_error(name, "store_denied", words)
        if status == 404:
            return self._failure_error(name, "store_missing", words)
        return self._failure_error(
            name, "store_unreachable" if status >= 500 or status in {408, 429} else "store_refused", words
        )

    def _unreachable(self, name: str, error: Exception) -> StoreError:
        # Its text may repeat an address that the server made up.
        words = "its answer cannot be read" if isinstance(error, _UNREADABLE) else "the store cannot be reached"
        return self._failure_error(name, "store_unreachable", f"{words}: {type(error).__name__}")

    def _failure_error(self, name: str, code: str, words: str) -> StoreError:
        return StoreError(f"{self._address}: {name}: {words}", code=code)


@functools.cache
def _loader() -> Any:
    """Return the loader of Amazon's interface descriptions, which are large: read once per process."""
    return importlib.import_module("botocore.loaders").create_loader()


def _send(wire: Any, request: Any) -> Any:
    """Send a signed request and return its reply with a bounded body."""
    streamed, request.stream_output = request.stream_output, True
    reply = wire.send(request)
    good = streamed and reply.status_code < 300
    bounds = (MAX_ARCHIVE_BYTES, DOWNLOAD_SECONDS) if good else (MAX_REPLY_BYTES, REPLY_SECONDS)
    reply.raw = BoundedBody(reply.raw, *bounds)
    return reply


def _stay_here(context: dict[str, Any], **_: object) -> None:
    """Mark a request as already redirected: otherwise the client would query a store for its region without end."""
    context.setdefault("s3_redirect", {})["redirected"] = True


def _credentials(entry: StoreEntry) -> dict[str, str]:
    """Return the credential arguments of the client. Raises StoreError (``store_credentials_missing``)."""
    if entry.credentials is None or entry.credentials == "workload":
        return {}
    given = entry.credentials
    try:
        keys = {"aws_access_key_id": given.access_key.read(_OWNER), "aws_secret_access_key": given.secret_key.read(_OWNER)}
        if given.session_token is not None:
            keys["aws_session_token"] = given.session_token.read(_OWNER)
    except ConfigurationError as error:
        raise StoreError(error.message, code=error.reason) from None
    return keys


def _lock(found: Mapping[str, Any]) -> ObjectLock:
    until = found.get("ObjectLockRetainUntilDate")
    held = found.get("ObjectLockLegalHoldStatus") == "ON"
    if not isinstance(until, datetime):
        return ObjectLock("", held)
    try:
        return ObjectLock(until.astimezone(UTC).isoformat(timespec="seconds"), held)
    except OverflowError:  # in another time zone it would be after the last year
        return ObjectLock(datetime.max.replace(tzinfo=UTC).isoformat(timespec="seconds"), held)


def _status_and_code(error: Any) -> tuple[int, str]:
    """Return the status and the code of an error, the code without control characters."""
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) or 0)
    code = str(error.response.get("Error", {}).get("Code", ""))[:64]
    return status, "".join(char for char in code if char in _CODE) or "unknown"


def _digest_source(source: Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return hashlib.sha256(source).digest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
