"""Source in, syntax tree out, within bounds. The grammars are tree-sitter's; they read hostile text in a child of ours.

A parse that takes too long, or a file that is too large, is a file that does not parse.
"""

from __future__ import annotations

import importlib
import time
from functools import cache

from tree_sitter import Language, Node, Parser, Point

#: Bytes of one file that are parsed.
MOST_BYTES = 1 << 20
#: Seconds of processor time for one file, checked now and then: a parse may take slightly more.
MOST_SECONDS = 2.0
#: Nodes of one tree, each of which is visited several times.
MOST_NODES = 500_000
_PIECE = 1 << 16
#: Languages in which ``<`` may open a list of types or compare: the parser keeps both in mind, again and again.
_GENERIC = frozenset({"java", "csharp"})
_MOST_OPEN = 60
_ENDS = bytes.maketrans(b"{}", b";;")

#: Module and function of each grammar: loaded for the first file of the language.
_GRAMMARS = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "kotlin": ("tree_sitter_kotlin", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "swift": ("tree_sitter_swift", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "ruby": ("tree_sitter_ruby", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
}
_ENDINGS = {
    **dict.fromkeys((b"py", b"pyi"), "python"),
    **dict.fromkeys((b"js", b"mjs", b"cjs", b"jsx"), "javascript"),
    **dict.fromkeys((b"ts", b"mts", b"cts"), "typescript"),
    **dict.fromkeys((b"kt", b"kts"), "kotlin"),
    # A header may be of either; what is C is nearly always C++, too.
    **dict.fromkeys((b"h", b"cc", b"cpp", b"cxx", b"c++", b"hh", b"hpp", b"hxx", b"h++", b"ipp", b"inl", b"tpp"), "cpp"),
    b"c": "c",
    b"tsx": "tsx",
    b"go": "go",
    b"rs": "rust",
    b"java": "java",
    b"cs": "csharp",
    b"swift": "swift",
    b"php": "php",
    b"rb": "ruby",
}


def language_of(path: bytes) -> str | None:
    """The language of the file at ``path`` by the ending of its name; None when there is no grammar for it."""
    _, dot, ending = path.rpartition(b".")
    return _ENDINGS.get(ending.lower()) if dot else None


def parse(language: str, content: bytes) -> Node | None:
    """The root of the tree of ``content``, which may have errors in it (``has_error``); None beyond the bounds."""
    if len(content) > MOST_BYTES or (language in _GENERIC and _nests(content)):
        return None
    end = time.process_time() + MOST_SECONDS

    def piece(offset: int, _place: Point) -> bytes:
        return content[offset : offset + _PIECE]

    def must_stop(_offset: int, _has_error: bool) -> bool:
        return time.process_time() > end

    # A stopped parser would continue at its old position: each file gets its own.
    try:
        tree = Parser(_grammar(language)).parse(piece, progress_callback=must_stop)
    except ValueError:  # it was stopped
        return None
    if tree.root_node.descendant_count > MOST_NODES:
        return None
    return tree.root_node


def _nests(content: bytes) -> bool:
    """Return whether one statement has more ``<`` than any human-readable one."""
    return any(piece.count(b"<") > _MOST_OPEN for piece in content.translate(_ENDS).split(b";"))


@cache
def _grammar(language: str) -> Language:
    module, function = _GRAMMARS[language]
    return Language(getattr(importlib.import_module(module), function)())
