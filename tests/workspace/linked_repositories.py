"""Repositories with submodules and objects of Git LFS, as git and git-lfs make them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.git.repositories import Repository

LFS_ATTRIBUTES = b"*.bin filter=lfs diff=lfs merge=lfs -text\n"


def new_repository(path: Path) -> Repository:
    home = path.with_name(f"home-of-{path.name}")
    home.mkdir()
    path.mkdir()
    repository = Repository(path, home)
    repository.git("init", "--quiet", "--initial-branch=main")
    return repository


def add_submodule(outer: Repository, inner: Repository, path: str) -> str:
    """Add ``inner`` at ``path`` as ``git submodule add`` does; return the commit of ``outer``."""
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.url, path)
    outer.git("commit", "--quiet", "-m", f"add {path}")
    return outer.head()


def update_submodules(outer: Repository) -> None:
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")


def bump(outer: Repository, path: str, commit: str) -> str:
    outer.git("update-index", "--cacheinfo", f"160000,{commit},{path}")
    outer.git("commit", "--quiet", "-m", f"move {path}")
    return outer.head()


def pointer(content: bytes) -> bytes:
    oid = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content)}\n".encode()


def store_object(store: Path, content: bytes) -> Path:
    """Write an object as git-lfs does, below ``objects`` of the folder ``store``."""
    oid = hashlib.sha256(content).hexdigest()
    place = store / "objects" / oid[:2] / oid[2:4] / oid
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return place
