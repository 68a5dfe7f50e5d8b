"""The worst inputs for what looks into files and names: encoded secrets, remains, conflicts in documents, names, patches."""

from __future__ import annotations

import base64
from pathlib import Path

from gatewright.errors import PatchError
from gatewright.git.changes import TreeChange
from gatewright.git.names import Known, limit_faults, unreadable_faults
from gatewright.git.patches.outcome import has_lines
from gatewright.git.patches.reader import read_patch
from gatewright.sandbox import Completed
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.gates.change.remains import _Content, _gone_contents, _is_destroyed, _moved_contents
from gatewright.services.reviewer.checks.contents import conflict_markers
from gatewright.services.reviewer.subject import ChangedFile, Subject
from gatewright.workspace.border import met_border
from gatewright.workspace.difference import ChangeBounds
from gatewright.workspace.workspace import Workspace
from tests.bounded.cases import MiB, case
from tests.factories import make_contract

SCANNER = SecretScanner()

_DOCUMENTS = {
    "fences": b"```\n" * (MiB // 4),
    "almost-fences": b"``\n" * (MiB // 3),
    "tabs": b"\t" * MiB,
    "longer-fences": b"\n".join(b"`" * (3 + n) for n in range(1400)),
    "conflicts": b"<<<<<<<\n" * (MiB // 8),
}
for _name, _content in _DOCUMENTS.items():

    @case(f"conflict markers in a document of {_name}")
    def _(content: bytes = _content) -> object:
        shown = content + b"\n<<<<<<<\n=======\n>>>>>>>\n"
        files = tuple(
            ChangedFile(TreeChange(b"a" + ending, "100644", "100644", "1" * 40, "2" * 40, "M"), b"", shown)
            for ending in (b".md", b".adoc")
        )
        return list(conflict_markers(Subject(make_contract(), files, MiB)))


def _nothing_known() -> Known:
    return Known(())


_NAMES = {
    "deep": [b"a/" * (MiB // 2) + "é".encode()],
    "deep-and-unseen": ["\u200b/".encode() * (MiB // 4) + b"x"],
    "many-in-one-unseen": ["src/\u200b/".encode() + b"%d" % n for n in range(MiB // 12)],
    "one-long": ["é".encode() * (MiB // 2)],
    "symbols-and-variations": ["\u2603\ufe0f".encode() * (MiB // 6)],
}
for _name, _list in _NAMES.items():

    @case(f"names in disguise {_name}")
    def _(paths: list[bytes] = _list) -> object:
        return [*limit_faults(paths, _nothing_known), *unreadable_faults(paths, _nothing_known)]


_NEW = b"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n"
_EDIT = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n"
_PATCHES = {
    "headers": b"diff --git a/x b/x\n" * (MiB // 19),
    "one long header": b"diff --git " + b"a" * MiB,
    "files without a hunk": b"--- a\n+++ b\n" * (MiB // 12),
    "escapes": b'diff --git "a/' + b"\\001" * (MiB // 8) + b'" "b/' + b"\\001" * (MiB // 8) + b'"\nnew file mode 100644\n',
    "quotes without an end": b'diff --git "' + b"\\\\" * (MiB // 2),
    "modes": b"".join(b"diff --git a/%d b/%d\nold mode 100644\nnew mode 100755\n" % (n, n) for n in range(MiB // 60)),
    "renames": b"".join(b"diff --git a/%d b/x%d\nrename from %d\nrename to x%d\n" % (n, n, n, n) for n in range(MiB // 60)),
    "a long new file": _NEW + b"@@ -0,0 +1,%d @@\n" % (MiB // 2) + b"+\n" * (MiB // 2),
    "runs of one line": _EDIT + b"@@ -1,%d +1,%d @@\n" % (MiB // 8, MiB // 8) + b"-a\n+b\n" * (MiB // 8),
    "hunks": _EDIT + b"".join(b"@@ -%d +%d @@\n-a\n+b\n" % (n, n) for n in range(1, MiB // 24)),
    "a hunk that goes on": _EDIT + b"@@ -1 +1 @@\n-a\n+b\n" + b"+c\n-d\n" * (MiB // 6),
    "removed lines before the next file": (_EDIT[19:] + b"@@ -1 +0,0 @@\n-a\n") * (MiB // 32),
    "binary lines": _NEW.partition(b"---")[0] + b"GIT binary patch\nliteral 0\n" + b"HcmV?d00001\n" * (MiB // 12),
    "mails": (b"From " + b"a" * 40 + b" Mon Sep 17 00:00:00 2001\nSubject: x\n\n---\n 0 files changed\n\n") * (MiB // 100),
    "signatures in a mail": b"From: a\nSubject: x\n\n" + b"-- \nx\n\n" * (MiB // 8),
    "fields of a mail": b"X: y\n" * (MiB // 6),
    "empty lines": b"\n" * MiB,
    "commits": (b"commit " + b"a" * 40 + b"\nAuthor: x\n\n    y\n\n") * (MiB // 70),
}
for _name, _content in _PATCHES.items():

    @case(f"patch of {_name}")
    def _(patch: bytes = _content) -> object:
        try:
            return list(limit_faults(read_patch(patch).paths(), _nothing_known))
        except PatchError as error:
            return error.message


@case("lines of a patch in a file of equal lines")
def _() -> object:
    patch = _EDIT + b"@@ -1,%d +1,%d @@\n" % (MiB // 8, MiB // 8) + b"-a\n+b\n" * (MiB // 8)
    return has_lines(b"a\n" * (MiB // 2), b"b\n" * (MiB // 2), patch, read_patch(patch).files)


_OLD, _NEW_CONTENT = b"abcdefghij\n" * (MiB // 11), b"#" + b"\t" * 998 + b"\n"
for _name, _content in {
    "comments": b"#\n" * (MiB // 2),
    "blanks": _NEW_CONTENT * 1000,
    "lines": b"abcdefgh\n" * (MiB // 9),
}.items():

    @case(f"remains of {_name}")
    def _(content: bytes = _content) -> object:
        return (
            _is_destroyed(_Content(content), _Content(content[: MiB // 4]), alike=True),
            _is_destroyed(_Content(_OLD), _Content(content), alike=False),
        )


@case("remains of many files that become one")
def _() -> object:
    changes = [TreeChange(b"%d" % n, "100644", "100644", f"{n:040}", "f" * 40, "M") for n in range(2000)]
    contents = {**{change.old_id: b"%s is one line\n" % change.path for change in changes}, "f" * 40: b"a line\n" * (MiB // 7)}
    return _gone_contents(changes, contents, frozenset({"f" * 40}))


@case("remains of many files of one name that may have moved")
def _() -> object:
    gone = [TreeChange(b"%d/a" % n, "100644", "000000", "1" * 40, "0" * 40, "D") for n in range(500)]
    places = [TreeChange(b"x%d/a" % n, "000000", "100644", "0" * 40, f"{n:040}", "A") for n in range(8)]
    contents = {f"{n:040}": b"".join(b"line %d of %d\n" % (m, n) for m in range(7000)) for n in range(8)}
    return _moved_contents(gone, {b"a": places}, {**contents, "1" * 40: contents[f"{0:040}"].replace(b"of", b"in")})


@case("words of a command that met a border")
def _() -> object:
    words = b"EXDEVx[Errno 1os error 18xCross-device lin" * (MiB // 42)
    overlay = Workspace(Path("task"), (), True, ChangeBounds())
    return met_border(overlay, Completed(1, words, words, 1.0, timed_out=False, truncated=False))


_APART = (b"A" * 16 + b"\xff") * (MiB // 40)
_DER = bytes.fromhex("30ff020100301006072a8648ce3d020106") * (MiB // 40)
_TOKENS_APART = (b"ghp_" + b"a1B2" * 9 + b"\xff ") * (MiB // 100)
_BASE64 = base64.b64encode(_APART)
_ENCODED = {
    "texts in digits": _APART.hex().encode(),
    "texts in digits apart": _APART.hex(":").encode(),
    "texts in base64": _BASE64,
    "texts in pieces of base64": b"\n".join(_BASE64[n : n + 4] for n in range(0, len(_BASE64), 4)),
    "tokens in digits": _TOKENS_APART.hex().encode(),
    "keys that say they are long": _DER,
    "keys in digits that say they are long": _DER.hex().encode(),
    "digits and prefixes": b"0x41, " * (MiB // 6),
    "gaps": (b"aaaa\\" + b"\\n" * 80) * (MiB // 165),
    "tabs": b"aaaa" + b"\t" * MiB,
}
for _name, _content in _ENCODED.items():

    @case(f"encoded {_name}")
    def _(data: bytes = _content) -> object:
        return SCANNER.find(data)
