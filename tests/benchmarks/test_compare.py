"""Two trees side by side: what is put beside what."""

from __future__ import annotations

from benchmarks.compare import compare


def test_rounds_are_compared_in_pairs_with_their_spread() -> None:
    old = [{"processor_ms": 200.0}, {"processor_ms": 400.0}, {"processor_ms": 300.0}]
    new = [{"processor_ms": 100.0}, {"processor_ms": 100.0}, {"processor_ms": 300.0}]
    assert compare(old, new) == {
        "processor_ms": {"old": [300.0, 200.0, 400.0], "new": [100.0, 100.0, 300.0], "ratio": [0.5, 0.25, 1.0]}
    }


def test_a_figure_missing_from_one_tree_is_left_out() -> None:
    assert compare([{"a": 0.0}], [{"a": 2.0, "b": 1.0}]) == {"a": {"old": [0.0] * 3, "new": [2.0] * 3, "ratio": []}}
