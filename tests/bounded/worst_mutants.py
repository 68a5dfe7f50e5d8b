"""The worst sources for what makes mutants of them: long lines, deep trees, conditions and calls that lie in each other."""

from __future__ import annotations

from gatewright.git.patches.lines import written_lines
from gatewright.services.testrunner.mutation.drawing import DrawingRequest, drawn_for
from tests.bounded.cases import MiB, case

_SOURCES = {
    "a.py of tabs": b"x = 1 +" + b"\t" * 900_000 + b"2\n",
    "a.py of one long sum": b"x = " + b"1+" * (MiB // 2 - 20) + b"1\n",
    "a.py of parentheses": b"x = " + b"(" * 100_000 + b"1" + b")" * 100_000 + b"\n",
    "a.py of comparisons": b"x = " + b"a<" * (MiB // 2 - 20) + b"a\n",
    "a.py of many lines": b"x = 1 + 2\n" * (MiB // 10),
    "a.py of many negations": b"x = " + b"not " * (MiB // 4 - 20) + b"y\n",
    "a.py of calls in calls": b"f(" * 100_000 + b")" * 100_000 + b"\n",
    "a.js of conditions in conditions": b"x = " + b"(a ? " * 50_000 + b"b" + b" : c)" * 50_000 + b";\n",
    "a.js of calls in calls": b"f(() => { " * 50_000 + b"}); " * 50_000 + b"\n",
    "a.go of braces": b"package a\nfunc f() { " + b"if a { " * 80_000 + b"}" * 80_000 + b" }\n",
    "a.rs of blocks": b"fn f() { " + b"if a { " * 80_000 + b"}" * 80_000 + b" }\n",
    "a.py that never closes": b"x = [" * (MiB // 5 - 20),
}
for _name, _content in _SOURCES.items():

    @case(f"mutants of {_name}")
    def _(name: str = _name, content: bytes = _content) -> object:
        path = name.partition(" ")[0]
        return drawn_for(DrawingRequest(_added(path, content), {path: content}, "seed", 200))


@case("mutants of many files with many lines")
def _() -> object:
    content = b"x = 1 + 2\n" * 3_000
    contents = {f"a{number}.py": content for number in range(500)}
    return drawn_for(DrawingRequest(b"".join(_added(path, content) for path in contents), contents, "seed", 200))


@case("written lines of a patch of heads")
def _() -> object:
    return [
        written_lines(piece * (MiB // len(piece)))
        for piece in (b"@@ -1 +1 @@\n", b"+++ b/a\n", b"diff --git a/a b/a\n", b"\t", b"\n")
    ]


def _added(path: str, content: bytes) -> bytes:
    lines = content.split(b"\n")
    return f"diff --git a/{path} b/{path}\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n+".encode() + b"\n+".join(lines) + b"\n"
