"""What lets a text be passed over unsearched may let no credential pass."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright.secrets.rules import GLANCES, RULES, SecretRule, may_hold_one

QUIET = "abcxyz019_.,/-"
#: Beginnings of credentials that are written in small letters, and what ends them.
PIECES = [
    "ghp_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "sk-",
    "rk_live_",
    "pypi-",
    "npm_",
    "--password",
    "bearer",
    "_auth",
    "0a1b2c" * 6,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@given(data=st.data())
def test_every_rule_match_has_an_anchor_and_is_examined(rule: SecretRule, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(rule.pattern))
    for found in rule.pattern.finditer(text):
        assert any(anchor in found[0] for anchor in rule.anchors)
        if rule.glance:
            assert GLANCES[rule.name].is_in(found[0].encode("latin-1", "replace"))
    assert may_hold_one(text)


@pytest.mark.parametrize("account", ["0" * 17, "123456789012345678", "9" * 18, "1234567890123456789"])
def test_discord_token_names_an_account_in_digits(account: str) -> None:
    (rule,) = (rule for rule in RULES if rule.name == "discord_token")
    for at, digit in ((at, digit) for at in range(len(account)) for digit in "0123456789:;/"):
        named = account[:at] + digit + account[at + 1 :]
        token = f"{base64.b64encode(named.encode()).decode().rstrip('=')}.G1a2b3.{'a1B2' * 7}"
        assert (rule.pattern.search(token) is not None) == named.isdigit()


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(QUIET)), max_size=6).map("".join))
def test_no_rule_matches_in_a_text_that_is_passed_over(text: str) -> None:
    if not may_hold_one(text):
        assert not [rule.name for rule in RULES if rule.pattern.search(text)]


@pytest.mark.parametrize("text", ["run-0a1b2c3d", "/home/me/.git/gatewright/runs/run-01", "bundle_sealed", "", "0" * 64])
def test_ids_words_and_paths_are_passed_over(text: str) -> None:
    assert re.fullmatch("[a-z0-9_./-]*", text)
    assert not may_hold_one(text)
