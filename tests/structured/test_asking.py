"""An answer is one JSON document under its schema for this very order; else it is asked for again, and refused in the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gatewright.contracts import PlanProposal, RunRequest
from gatewright.errors import Fault
from gatewright.prompts.library import PromptLibrary
from gatewright.prompts.orders import techlead_order
from gatewright.structured.answers import MAX_BYTES, StructuredOutputError, StructuredQuestion, judge_answer
from gatewright.structured.asking import Asking, ModelAnswer, Turn
from tests.factories import make_contract

PROMPT = techlead_order(PromptLibrary(), make_contract(), ["src/a.py"], 2)
QUESTION = StructuredQuestion(PROMPT, PlanProposal)


def answer(**changes: Any) -> str:
    document = {"directive_ack": PROMPT.directive, "summary": "one", "shards": [{"paths": ["src"], "batch": "narrow"}]}
    return json.dumps(document | changes)


class Script:
    """Gives its lines in turn, and keeps what it was told."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.heard: list[tuple[Turn, ...]] = []

    async def answer(self, system: str, turns: Sequence[Turn]) -> ModelAnswer:
        assert system == PROMPT.system
        self.heard.append(tuple(turns))
        return ModelAnswer(self._lines.pop(0))


async def refusal(text: str) -> Fault:
    document, faults = await judge_answer(text, QUESTION)
    assert document is None
    return faults[0]


async def test_a_valid_answer_is_the_document() -> None:
    document, faults = await judge_answer(f"  {answer()}\n", QUESTION)
    assert faults == ()
    assert document is not None
    assert document.shards[0].paths == ("src",)


@pytest.mark.parametrize(
    ("text", "pointer", "code"),
    [
        ("", "", "not_json"),
        ("I would split it into src and tests.", "", "not_json"),
        (f"Here you are:\n{answer()}", "", "not_json"),
        (f"```json\n{answer()}\n```", "", "not_json"),
        (answer()[:-20], "", "not_json"),
        (answer() + answer(), "", "not_json"),
        (answer().replace('"one"', "NaN"), "", "not_json"),
        (answer().replace('"summary"', '"directive_ack"'), "/directive_ack", "duplicate_key"),
        (answer(summary=1), "/summary", "type"),
        (answer(shards=[]), "/shards", "minItems"),
        (answer(sandbox="none"), "/sandbox", "additionalProperties"),
        (json.dumps({"verdict": "PASS"}), "/directive_ack", "required"),
        (answer(directive_ack="directive-" + "0" * 32), "/directive_ack", "directive_mismatch"),
        (answer(summary="x" * MAX_BYTES), "", "answer_too_large"),
        ("{" * 5000 + "}" * 5000, "", "not_json"),
        (answer(summary="\ud800"), "", "not_json"),
    ],
)
async def test_any_other_answer_is_refused_with_its_place(text: str, pointer: str, code: str) -> None:
    fault = await refusal(text)
    assert (fault.pointer, fault.code) == (pointer, code)


async def test_a_model_receives_its_faults_and_another_try() -> None:
    script = Script("let me think", answer(shards=[]), answer())
    asking = Asking(QUESTION)
    assert (await asking.ask(script)).summary == "one"
    assert len(asking.answers) == 3
    assert [turn.speaker for turn in script.heard[1]] == ["user", "model", "user"]
    assert script.heard[0][0].text == script.heard[2][0].text == PROMPT.order
    assert "no words around it" in script.heard[1][2].text
    assert "/shards: must have at least 1 item(s)" in script.heard[2][2].text


async def test_a_model_that_never_answers_in_form_is_refused_eventually() -> None:
    script = Script(*["prose"] * 9)
    with pytest.raises(StructuredOutputError) as error:
        await Asking(QUESTION).ask(script, attempts=3)
    assert error.value.reason == "structured_output_invalid"
    assert len(script.heard) == 3


async def test_a_rule_of_the_caller_is_a_fault_like_any_other() -> None:
    async def never(document: PlanProposal) -> Sequence[Fault]:
        return (Fault("/shards/0/paths/0", "plan_invalid", f"{document.shards[0].paths[0]} is outside the contract"),)

    script = Script(*[answer()] * 3)
    with pytest.raises(StructuredOutputError, match="src is outside the contract"):
        await Asking(StructuredQuestion(PROMPT, PlanProposal, never)).ask(script)


async def test_a_question_that_is_bound_to_no_schema_is_never_asked() -> None:
    script = Script(answer())
    with pytest.raises(StructuredOutputError, match="bound to no schema"):
        await Asking(StructuredQuestion(PROMPT, RunRequest)).ask(script)  # type: ignore[type-var]
    assert script.heard == []


async def test_what_is_huge_is_not_sent_back() -> None:
    script = Script("x" * (MAX_BYTES + 10), answer())
    await Asking(QUESTION).ask(script)
    assert len(script.heard[1][1].text) <= 20_000
