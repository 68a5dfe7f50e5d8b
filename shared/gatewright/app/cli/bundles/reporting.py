"""``gatewright report``: verify, render, and put the page where it was asked for, whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gatewright.app.cli.bundles.verifying import find_bundle, trust
from gatewright.app.cli.context import find_place
from gatewright.app.report.account import read_account
from gatewright.app.report.page import Material, render
from gatewright.errors import MalformedError
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify
from gatewright.version import __version__


def write_report(given: str | None, output: Path, key: str | None) -> Verification:
    """Write the page of the bundle that ``given`` names to ``output``; returns what the verification found.

    Raises MalformedError: no such bundle, no such key, or a file that cannot be written (``output_unwritable``).
    """
    place = find_place()
    folder = find_bundle(given, place)
    if output.absolute().is_relative_to(folder.absolute()):
        raise MalformedError(f"{output} would lie inside the bundle, which would not verify any more", code="output_unwritable")
    trusted = trust((key,) if key else (), place)
    result = verify(folder, [each.public for each in trusted])
    whose = next((each.known.whose for each in trusted if each.public.key_id == result.signer), "")
    words = f"Made by Gatewright {__version__} from the bundle alone."
    page = render(Material(read_account(folder), result, words, whose=whose))
    write_whole(output, page)
    return result


def write_whole(output: Path, data: bytes) -> None:
    """Put ``data`` in ``output`` whole or not at all. Raises MalformedError (``output_unwritable``)."""
    draft = output.with_name(f".{output.name}.{os.getpid()}.draft")
    try:
        with draft.open("xb") as file:
            file.write(data)
        draft.replace(output)
    except OSError as error:
        raise MalformedError(f"{output} cannot be written: {error.strerror or error}", code="output_unwritable") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
