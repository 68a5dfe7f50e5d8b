"""Sources of JavaScript and TypeScript that record the calls of their exported functions: see ``reporters/recording.cjs``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from tree_sitter import Node

from gatewright.syntax_trees import language_of, parse

_RECORDER = "process.getBuiltinModule('node:module').createRequire('/')({0})"
_FUNCTIONS = frozenset({"arrow_function", "function_expression"})
_DECLARED = frozenset({"function_declaration", "class_declaration", "abstract_class_declaration"})


class _Edit(NamedTuple):
    at: int
    end: int
    text: bytes


class _Exported(NamedTuple):
    """A name of the file, and the name under which it is exported."""

    local: str
    name: str


def record_calls(path: str, content: bytes, recorder: str) -> bytes | None:
    """Return ``content`` with recorded exports, the lines where they were in JavaScript; None if it does not parse.

    ``recorder`` is the path of the recording module inside the sandbox.
    """
    language = language_of(path.encode())
    root = parse(language, content) if language is not None else None
    if root is None or root.has_error:
        return None
    load, where = _RECORDER.format(json.dumps(recorder)), json.dumps(path)
    if not any(node.type in {"import_statement", "export_statement"} for node in root.named_children):
        return content + f"\n;{load}.commonjs(module, {where});\n".encode()
    source = _Module(root, content)
    edits = [*source.edits(load, where)]
    for edit in sorted(edits, reverse=True):
        content = content[: edit.at] + edit.text + content[edit.end :]
    calls = "".join(
        f" {one.local} = recording.value({where}, {json.dumps(one.name)}, {one.local});" for one in source.assignable
    )
    calls += "".join(f" recording.value({where}, {json.dumps(one.name)}, {one.local});" for one in source.classes)
    head = b"// @ts-nocheck\n" if language in {"typescript", "tsx"} else b""
    return head + content + f"\n;{{ const recording = {load};{calls} }}\n".encode()


class _Module:
    """The exports of a module: those that can be assigned again, classes, and edits for the others."""

    def __init__(self, root: Node, content: bytes) -> None:
        self._content = content
        self._declared: dict[str, Node] = {}
        self._root = root
        self.assignable: list[_Exported] = []
        self.classes: list[_Exported] = []
        for node in root.named_children:
            inner = node.child_by_field_name("declaration") if node.type == "export_statement" else node
            for name, each in self._declared_names(inner) if inner is not None else ():
                self._declared[name] = each

    def edits(self, load: str, where: str) -> Iterator[_Edit]:
        """Sort the exports, and yield the edits that they need."""
        for node in self._root.named_children:
            if node.type != "export_statement":
                continue
            value, declaration = node.child_by_field_name("value"), node.child_by_field_name("declaration")
            is_default = any(child.type == "default" for child in node.children)
            if value is not None and is_default:
                yield _Edit(value.start_byte, value.start_byte, f"{load}.value({where}, 'default', (".encode())
                yield _Edit(value.end_byte, value.end_byte, b"))")
            elif declaration is not None:
                for name, _ in self._declared_names(declaration):
                    yield from self._sort(_Exported(name, "default" if is_default else name))
            elif node.child_by_field_name("source") is None:
                for specifier in _descendants(node, "export_specifier"):
                    local, alias = specifier.child_by_field_name("name"), specifier.child_by_field_name("alias")
                    if local is not None:
                        yield from self._sort(_Exported(self._node_text(local), self._node_text(alias or local)))

    def _sort(self, exported: _Exported) -> Iterator[_Edit]:
        node = self._declared.get(exported.local)
        if node is None:
            return
        if node.type.endswith("class_declaration"):
            self.classes.append(exported)
        elif node.type == "function_declaration":
            self.assignable.append(exported)
        elif (value := node.child_by_field_name("value")) is not None and value.type in _FUNCTIONS and node.parent is not None:
            kind = node.parent.child_by_field_name("kind")
            if kind is not None and self._node_text(kind) == "const":
                yield _Edit(kind.start_byte, kind.end_byte, b"let  ")
            self.assignable.append(exported)

    def _declared_names(self, node: Node) -> Iterator[tuple[str, Node]]:
        name = node.child_by_field_name("name")
        if node.type in _DECLARED and name is not None:
            yield self._node_text(name), node
        elif node.type in {"lexical_declaration", "variable_declaration"}:
            for each in node.named_children:
                own = each.child_by_field_name("name")
                if each.type == "variable_declarator" and own is not None and own.type == "identifier":
                    yield self._node_text(own), each

    def _node_text(self, node: Node) -> str:
        return self._content[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _descendants(node: Node, kind: str) -> Iterator[Node]:
    for child in node.named_children:
        if child.type == kind:
            yield child
        else:
            yield from _descendants(child, kind)
