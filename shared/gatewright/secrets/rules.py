"""The shapes of credentials, one list for everything that is scanned: logs, outputs, reports, patches.

Time is linear in the text, which may be hostile: no pattern requires anything after an unbounded run in which it could
start again. A rule is *precise* if the form of the value alone identifies it; the others use the words around a value,
which is acceptable where a false alarm costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from gatewright.patterns import BytesPattern
from gatewright.secrets.values import looks_generated, looks_random, states_fact

#: The rule of the token that a box holds and nothing prints (``gatewright.canary``).
CANARY: Final = "canary"


def code_of(rule: str) -> str:
    """Return the reason code for what a rule found."""
    return "canary_leaked" if rule == CANARY else "secret_found"


class SecretRule(NamedTuple):
    """``pattern`` finds a credential; ``replacement`` is a template for ``Match.expand``.

    ``anchors``: texts of which one is in every match. ``glance``: a part of every match of a precise rule, for RE2, if its
    anchors alone are common.
    """

    name: str
    pattern: re.Pattern[str]
    replacement: str
    precise: bool
    anchors: tuple[str, ...]
    glance: str = ""

    def redact(self, text: str) -> str:
        """``text`` with each match replaced, except where an assignment only states a fact."""
        if self.precise or "name" not in self.pattern.groupindex:
            return self.pattern.sub(self.replacement, text)
        return self.pattern.sub(lambda found: found[0] if is_fact(found) else found.expand(self.replacement), text)


def _context_rule(name: str, pattern: str, *anchors: str, keep: str = "", end: str = "") -> SecretRule:
    return SecretRule(name, re.compile(pattern, re.ASCII), f"{keep}[redacted:{name}]{end}", precise=False, anchors=anchors)  # noqa: TID251 - it looks around; see above why each is linear


def _precise(name: str, pattern: str, *anchors: str, glance: str = "") -> SecretRule:
    compiled = re.compile(pattern, re.ASCII)  # noqa: TID251 - it looks around; see above why each is linear
    return SecretRule(name, compiled, f"[redacted:{name}]", precise=True, anchors=anchors, glance=glance)


def _alone(begin: str) -> str:
    """Return a pattern for ``begin`` without a preceding word. It begins with fixed letters, which makes the search fast."""
    literal = re.escape(begin)
    return rf"{literal}(?<!\w{literal})"


#: The first of three digits in base64, and all three.
_DIGIT = "(?:[MN][DTjz]|O[DT])"
_DIGITS_3 = _DIGIT + "[AEIMQUYcgk][wxyz0-5]"
#: White space, as ``re.ASCII`` has it.
_BLANKS = (" ", "\t", "\n", "\r", "\f", "\v")
#: Names that make an assignment (``password=...``, ``"api_key": ...``, ``--token ...``) secret. Longer ones first.
_ASSIGNED = (
    r"(?i:passwords?|passwd|passphrase|pwd|secrets?|tokens?|credentials?"
    r"|api[_-]?keys?|access[_-]?keys?|private[_-]?keys?|signing[_-]?keys?|cookie|[_-]pass|_auth)"
)
#: The value of an assignment: quoted up to its quote (escaped quotes included), else up to white space or a separator.
_VALUE = r"""(?:\\?"(?:[^"\\]|\\(?!").)*\\?"?|'[^'\n]*'?|[^\s"',;&)}\]]+)"""

#: In order; later rules do not match a replacement, because it has none of their shapes.
RULES: tuple[SecretRule, ...] = (
    _precise(
        "private_key",
        r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
        r"(?:-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        "PRIVATE KEY",
    ),
    # ``git@`` and the like, a bare name before the host of an ssh URL, is no secret.
    _context_rule("url_credentials", r"://(?!(?<=ssh://)[\w.-]+@(?![^\s/]*@))[^\s/]+@", "://", keep="://", end="@"),
    _context_rule(
        "authorization",
        r"""(?P<name>(?i:authorization)\\?["']?\s{0,4}[:=]\s{0,4})\\?["']?[^\n"'\\]+""",
        *(":", "="),
        keep=r"\g<name>",
    ),
    _context_rule("bearer", r"(?P<scheme>(?i:bearer)\s{1,4})[A-Za-z0-9._~+/=-]{6,}", *_BLANKS, keep=r"\g<scheme>"),
    _precise(
        "github_token",
        r"(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})",
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    _precise(
        "gitlab_token",
        r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|oas|ffct|wt)-[A-Za-z0-9_.-]{16,}",
        "gl",
        glance="gl[a-z]{2,5}-[A-Za-z0-9_.-]{16}",
    ),
    _precise("slack_token", r"xox[a-z]-[A-Za-z0-9-]{10,}", "xox"),
    _precise("model_key", rf"{_alone('sk-')}[A-Za-z0-9_-]{{16,}}", "sk-", glance="sk-[A-Za-z0-9_-]{16}"),
    _precise("payment_key", r"sk_(?:live|test)_[A-Za-z0-9]{10,}", "sk_live_", "sk_test_"),
    _precise("payment_key", r"rk_(?:live|test)_[A-Za-z0-9]{10,}", "rk_live_", "rk_test_"),
    _precise("registry_token", r"pypi-[A-Za-z0-9_-]{16,}", "pypi-"),
    _precise("registry_token", r"npm_[A-Za-z0-9]{30,}", "npm_"),
    _precise("google_key", r"AIza[A-Za-z0-9_-]{35}", "AIza"),
    *(
        _precise("aws_key", rf"{_alone(begin)}[A-Z0-9]{{16}}(?![A-Za-z0-9])", begin)
        for begin in ("AKIA", "ASIA", "ABIA", "ACCA")
    ),
    _precise("google_secret", r"GOCSPX-[A-Za-z0-9_-]{20,}", "GOCSPX-"),
    _precise("google_token", rf"{_alone('ya29.')}[A-Za-z0-9_-]{{40,}}", "ya29."),
    _precise("google_token", r"1//0(?<![\w/+-]1//0)[A-Za-z0-9_-]{40,}", "1//0"),
    _precise(
        "discord_webhook",
        r"/webhooks/(?:(?<=(?:discord|cordapp)\.com/api/webhooks/)|(?<=(?:discord|cordapp)\.com/api/v[0-9]/webhooks/)"
        r"|(?<=(?:discord|cordapp)\.com/api/v[0-9]{2}/webhooks/))[0-9]{15,20}/[A-Za-z0-9_-]{50,90}",
        "/webhooks/",
    ),
    # It begins with the number of an account in base64.
    _precise(
        "discord_token",
        rf"(?<![\w.-])(?:{_DIGITS_3}){{5}}(?:{_DIGIT}[AEIMQUYcgk]|{_DIGITS_3}(?:[MN][AQgw]|O[AQ])?)"
        r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45}(?![\w-])",
        *("MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),
        glance=_DIGITS_3 + r"[A-Za-z0-9]{18,24}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}",
    ),
    _precise("telegram_token", r"(?<![\w-])[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![\w-])", ":AA"),
    _precise(
        "firebase_key",
        rf"{_alone('AAAA')}[A-Za-z0-9_-]{{7}}:[A-Za-z0-9_-]{{140}}(?![\w-])",
        "AAAA",
        glance="AAAA[A-Za-z0-9_-]{7}:",
    ),
    _precise("notion_token", rf"{_alone('ntn_')}[A-Za-z0-9]{{40,50}}\b", "ntn_"),
    _precise("alibaba_key", rf"{_alone('LTAI')}[A-Za-z0-9]{{12,20}}(?![\w/+=-])", "LTAI"),
    _precise("nuget_key", rf"{_alone('oy2')}[a-z0-9]{{43}}(?![\w/+=-])", "oy2", glance="oy2[a-z0-9]{43}"),
    _precise("newrelic_key", r"NRAK-[A-Z0-9]{27}\b", "NRAK-"),
    _precise("sentry_token", r"sntry[su]_[A-Za-z0-9+/=_-]{40,}", "sntry"),
    _precise("planetscale_token", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,}", "pscale_"),
    _precise("crates_token", rf"{_alone('cio')}[A-Za-z0-9]{{32}}(?![\w/+=-])", "cio", glance="cio[A-Za-z0-9]{32}"),
    _precise("azure_secret", r"(?<![\w~.-])[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![\w~.-])", "Q~"),
    _precise("putty_key", r"Private-Lines: [0-9]{1,4}\r?\n[A-Za-z0-9+/=]{24,}", "Private-Lines: "),
    _precise("openvpn_key", r"-----BEGIN OpenVPN Static key V1-----(?:\s{1,4}[0-9a-f]{32}){1,16}", "OpenVPN Static key"),
    _precise(
        "nats_seed",
        r"\bS[ACNOUX][A-Z2-7]{56}(?![A-Za-z0-9])",
        "SA",
        "SC",
        "SN",
        "SO",
        "SU",
        "SX",
        glance="S[ACNOUX][A-Z2-7]{56}",
    ),
    _precise("jwt", r"eyJ[A-Za-z0-9_-]{14,}(?:\.[A-Za-z0-9_-]*){0,2}", "eyJ", glance="eyJ[A-Za-z0-9_-]{14}"),
    _context_rule(
        "assignment",
        rf"""(?P<name>{_ASSIGNED}[A-Za-z0-9_-]{{0,40}}(?:\\?["']?\s{{0,4}}[:=]\s{{0,4}}))(?!\[redacted:){_VALUE}""",
        *(":", "="),
        keep=r"\g<name>",
    ),
    _context_rule("option", rf"(?P<name>--{_ASSIGNED}\s{{1,4}})(?!\[redacted:){_VALUE}", "--", keep=r"\g<name>"),
)


def is_fact(found: re.Match[str]) -> bool:
    """Return whether a match of an assignment or an option states a fact: ``prompt_tokens: 12``, ``edit /etc/passwd:
    allowed``."""
    name, value = found["name"], found[0][found.end("name") - found.start() :].strip("\"'\\")
    if states_fact(name.strip("\"'\\:= \t-"), value):
        return True
    # A path in the middle of a sentence.
    is_path = found.string[found.start() - 1 : found.start()] == "/" and name.endswith((": ", ":\t"))
    return is_path and not looks_random(value) and not looks_generated(value)


_AT_A_TIME = 10
PRECISE_RULES: tuple[SecretRule, ...] = tuple(rule for rule in RULES if rule.precise)


def _glance(rules: tuple[SecretRule, ...]) -> BytesPattern:
    parts = (rule.glance or "|".join(map(re.escape, rule.anchors)) for rule in rules)
    return BytesPattern("|".join(f"(?:{part})" for part in parts).encode())


#: Groups of rules, with text that every match of a group contains: most texts have none of it.
RULES_BY_GLANCE = tuple(
    (_glance(rules), rules)
    for rules in (PRECISE_RULES[at : at + _AT_A_TIME] for at in range(0, len(PRECISE_RULES), _AT_A_TIME))
)
#: The same for each rule with common anchors.
GLANCES = {rule.name: _glance((rule,)) for rule in PRECISE_RULES if rule.glance}

#: Small letters, digits and joiners: most logged texts are ids, words and paths of these.
_QUIET = re.compile(r"[a-z0-9_.,/-]*")  # noqa: TID251 - linear: one class of characters
_QUIET_ANCHORS = tuple(anchor for rule in RULES for anchor in rule.anchors if _QUIET.fullmatch(anchor))


def may_hold_one(text: str) -> bool:
    """Return False if certainly no rule matches in ``text``."""
    # A match has one of the anchors in it, and where all characters are quiet ones, that is a quiet one.
    return _QUIET.fullmatch(text) is None or any(anchor in text for anchor in _QUIET_ANCHORS)


#: A private key without armour: the first bytes of its DER, for the usual algorithms.
_KEY_IN_DER = re.compile(  # noqa: TID251 - linear: of a fixed length
    # RSA: PKCS #1, and PKCS #8 with the algorithm's whole name (a certificate begins alike, and has another one there)
    rb"\x30\x82..\x02\x01\x00(?:\x02\x82..\x00|\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00\x04\x82)"
    # elliptic curves and Edwards curves in PKCS #8
    rb"|\x30(?:.|\x81.)\x02\x01\x00\x30.\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06"
    rb"|\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65[\x6e-\x71]\x04\x22\x04\x20",
    re.DOTALL,
)


def keys_in_der(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the spans of unarmoured private keys in ``data``; overlapping ones are joined."""
    begin, stop = 0, 0
    for found in _KEY_IN_DER.finditer(data):
        start, first = found.start(), data[found.start() + 1]
        more = first - 0x80 if first > 0x80 else 0
        length = int.from_bytes(data[start + 2 : start + 2 + more], "big") if more else first
        end = min(max(start + 2 + more + length, found.end()), len(data))
        if start < stop:  # a false length contains others, each as long
            stop = max(stop, end)
            continue
        if stop:
            yield begin, stop
        begin, stop = start, end
    if stop:
        yield begin, stop
