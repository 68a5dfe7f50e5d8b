"""The way to the provider and back, as paths of the console."""

from __future__ import annotations

from dataclasses import dataclass, field

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from gatewright.app.console.access_check import SESSION_COOKIE, SignedIn, SignedInPerson, status_of
from gatewright.app.console.provider.attempts import ATTEMPT_SECONDS, SignInAttempts, refusal
from gatewright.app.console.provider.exchange import UNAVAILABLE, ProviderExchange
from gatewright.app.console.provider.settings import RETURN_PATH, person_of, role_of
from gatewright.app.console.roles import ConsoleRole
from gatewright.errors import DeniedError, GatewrightError, UnavailableError
from gatewright.outside_calls import CallLimits, OutsideCalls

ATTEMPT_COOKIE = "gatewright_sign_in"
#: Maximum characters of a parameter that a browser returns with.
_LONGEST = 4096
#: Requests to the provider at a time. A provider that hangs delays other sign-ins only, and no page.
_LIMITS = CallLimits(places=4, patience=10.0)
#: Seconds for all requests of one step of a sign-in.
_ANSWER_SECONDS = 30.0


def _unavailable(words: str) -> UnavailableError:
    return UnavailableError(words, code=UNAVAILABLE)


def _calls() -> OutsideCalls:
    """Return the call limits. Only hangs trip the circuit breaker: a corrected provider works immediately."""
    return OutsideCalls("the provider", _LIMITS, _unavailable, lambda _: False)


@dataclass(slots=True)
class ProviderPaths:
    """``secure``: cookies go over TLS alone."""

    exchange: ProviderExchange
    attempts: SignInAttempts
    signed_in: SignedIn
    templates: Environment
    secure: bool
    _asking: OutsideCalls = field(default_factory=_calls)

    def routes(self) -> list[Route]:
        return [Route("/sign-in/provider", self.leave), Route(RETURN_PATH, self.come_back)]

    async def leave(self, _request: Request) -> Response:
        """Redirect to the provider."""
        attempt = self.attempts.begin()
        try:
            address = await self._asking.call(_ANSWER_SECONDS, self.exchange.address, attempt)
        except GatewrightError as error:
            return self._refusal_response(error)
        answer = RedirectResponse(address, 303)
        # Lax: the provider's site sends the browser back, and a strict cookie would stay behind.
        answer.set_cookie(
            ATTEMPT_COOKIE,
            attempt.cookie,
            max_age=int(ATTEMPT_SECONDS),
            httponly=True,
            samesite="lax",
            secure=self.secure,
            path="/sign-in",
        )
        return answer

    async def come_back(self, request: Request) -> Response:
        """Process the return from the provider, with a code for the person's claims."""
        try:
            role, who, person = await self._known_person(request)
        except GatewrightError as error:
            return self._refusal_response(error)
        seconds = self.exchange.settings.file.session_seconds
        # The session that this browser had before is over: one of another person, for instance.
        self.signed_in.sign_out(request.cookies.get(SESSION_COOKIE, ""))
        session = self.signed_in.begin(role, seconds, who=who, person=person)
        answer = HTMLResponse(self.templates.get_template("signed_in.html").render(role=role))
        answer.delete_cookie(ATTEMPT_COOKIE, path="/sign-in", httponly=True, samesite="lax", secure=self.secure)
        answer.set_cookie(
            SESSION_COOKIE, session, max_age=seconds, httponly=True, samesite="strict", secure=self.secure, path="/"
        )
        return answer

    async def _known_person(self, request: Request) -> tuple[ConsoleRole, str, SignedInPerson | None]:
        """Role, whom the provider calls so, and the person. Raises DeniedError, LimitError, UnavailableError."""
        given = request.query_params
        if any(
            len(given.getlist(name)) > 1 or len(given.get(name, "")) > _LONGEST for name in ("state", "code", "iss", "error")
        ):
            raise refusal("the way back is not one of the provider's")
        cookie = request.cookies.get(ATTEMPT_COOKIE, "")
        attempt = self.attempts.resume(cookie[:_LONGEST], given.get("state", ""))
        try:
            if "error" in given or not given.get("code"):
                raise refusal("the provider let no one in")
            claims = await self._asking.call(_ANSWER_SECONDS, self.exchange.claims, attempt, given["code"], given.get("iss"))
            role = role_of(claims, self.exchange.settings.file)
            if role is None:
                words = "you are known to the provider, and have no role here: ask the operator of this console for one"
                raise DeniedError(words, code="sign_in_no_role")
        except GatewrightError:
            self.attempts.failed()
            raise
        settings = self.exchange.settings
        return role, f"{claims['sub']} at {settings.host}", person_of(claims, settings)

    def _refusal_response(self, error: GatewrightError) -> Response:
        text = self.templates.get_template("sign_in.html").render(
            mark="", wrong=False, wanted=True, tokens=False, provider=self.exchange.settings.host, error=error
        )
        return HTMLResponse(text, status_of(error))
