"""Which names are those of caches, and which look like them and are sources."""

from __future__ import annotations

import pytest

from gatewright.ecosystems.caches import is_cache

CACHES = (
    *("src/__pycache__/m.cpython-311.pyc", "m.pyc", "M.PYC", ".mypy_cache/x", ".venv/bin/python", "src/pkg.egg-info/PKG-INFO"),
    *(
        "web/node_modules/a/index.js",
        "Node_Modules/a.js",
        ".next/x",
        ".eslintcache",
        "tsconfig.tsbuildinfo",
        ".yarn/cache/a.zip",
    ),
    *(
        "target/debug/app",
        "crates/a/target/release/x",
        "target/classes/A.class",
        "target/surefire-reports/x.xml",
        ".gradle/8/x",
    ),
    *("build/classes/java/A.class", "obj/Debug/net8.0/a.dll", "bin/Release/a.dll", "CMakeFiles/x", "CMakeCache.txt", "a.o"),
    *("_build/dev/x", ".dart_tool/x", ".build/x", "dist-newstyle/x", "zig-out/bin/a", ".terraform/modules/x", ".DS_Store"),
    *("vendor/bundle/ruby/a.rb", ".coverage", "htmlcov/index.html"),
)
SOURCES = (
    *(
        "src/target/mod.rs",
        "target/README.md",
        "src/build/main.py",
        "build/Dockerfile",
        "bin/run",
        "obj/model.py",
        "vendor/a.go",
    ),
    *(
        "src/cache.py",
        "cache/redis.py",
        "caches/x.py",
        "node_modules.md",
        "src/pycache/x.py",
        "coverage/report.py",
        "docs/o.md",
    ),
    *("src/objects/a.py", "pyc.py", "src/venv.py", ".yarn/plugins/a.cjs", "lib/next/a.js", "classes/A.java"),
)


@pytest.mark.parametrize("path", CACHES)
def test_file_that_a_tool_wrote(path: str) -> None:
    assert is_cache(path)


@pytest.mark.parametrize("path", SOURCES)
def test_source_that_is_called_like_a_cache(path: str) -> None:
    assert not is_cache(path)
