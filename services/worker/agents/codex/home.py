"""The home that Codex begins with: one provider, the model gateway, and everything off that would look for a network."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Final

from gatewright.permissions import SHELL_MEANINGS
from gatewright.services.worker.agents.port import AgentOrder

CODEX_HOME: Final = "@HOME@/.codex"
#: Where the list of models lies in its home.
CATALOGUE: Final = ".codex/models.json"
#: The variable that Codex takes its key from. The key is none: the gateway has the real one.
KEY: Final = "GATEWRIGHT_MODEL_KEY"
DUMMY_KEY: Final = "held-by-the-gateway"
_PROVIDER: Final = "gatewright"
#: Its own sandbox cannot be nested inside this one, and is not needed.
SANDBOX: Final = "danger-full-access"
_OFF: Final = (
    "plugins",
    "apps",
    "unbounded_connection_retries",
    "remote_plugin",
    "goals",
    "memories",
    "enable_request_compression",
)


#: Starts Codex, with our list of models where its own lacks the model. It prints its own list without a network.
_START: Final = """\
case $({models} 2>/dev/null </dev/null) in
*'"slug":'"$1"*) ;;
*) config=$CODEX_HOME/config.toml
   printf 'model_catalog_json = "%s/models.json"\\n' "$CODEX_HOME" | cat - "$config" >"$config.new"
   mv "$config.new" "$config" ;;
esac
shift
exec "$@"
"""


def start_of(argv: Sequence[str], models: Sequence[str], order: AgentOrder) -> tuple[str, ...]:
    """Wrap ``argv``, which starts Codex. ``models`` is the argv that prints the models it knows.

    A known model keeps Codex's own prompt, tools and context size. Others get our entry, as do all models of runs that were
    recorded with version 1 of the order.
    """
    script = _START.format(models="false" if order.recorded_catalogue else shlex.join(models))
    return ("/bin/sh", "-c", script, "codex", json.dumps(order.model), *argv)


def configuration(order: AgentOrder) -> str:
    """Return ``config.toml``."""
    # A string of JSON is a basic string of TOML.
    text = json.dumps
    lines = [
        f"model = {text(order.model)}",
        f"model_provider = {text(_PROVIDER)}",
        f"sandbox_mode = {text(SANDBOX)}",
        "check_for_update_on_startup = false",
        'web_search = "disabled"',
        # The prompt contains the baseline's instructions; the agent's own reader would use files that an attempt wrote.
        "project_doc_max_bytes = 0",
        f"[model_providers.{_PROVIDER}]",
        f"name = {text(_PROVIDER)}",
        f"base_url = {text(f'{order.base_url}/v1')}",
        'wire_api = "responses"',
        f"env_key = {text(KEY)}",
        # The gateway tries again by itself, and knows better what for.
        "request_max_retries = 1",
        "stream_max_retries = 1",
        "[analytics]",
        "enabled = false",
        "[otel]",
        'exporter = "none"',
        "[agents]",
        "enabled = false",
        "[history]",
        'persistence = "none"',
        "[features]",
        *(f"{name} = false" for name in _OFF),
        *(["shell_tool = false"] if SHELL_MEANINGS[order.shell].approval_policy is None else []),
        *(f"[mcp_servers.{name}]\nurl = {text(url)}" for name, url in order.tool_addresses.items()),
        f"[projects.{text(order.directory)}]",
        'trust_level = "untrusted"',
    ]
    return "\n".join(lines) + "\n"


def approval_policy(order: AgentOrder) -> str:
    """Return Codex's name of the policy. Without a shell tool it asks for every other execution, and is refused."""
    return SHELL_MEANINGS[order.shell].approval_policy or "untrusted"


def catalogue(model: str) -> str:
    """The list of models with one entry: a model that Codex does not know gets no tool to write files with."""
    entry = {
        "slug": model,
        "display_name": model,
        "description": "A model behind the gateway.",
        "default_reasoning_level": "medium",
        "supported_reasoning_levels": [{"effort": "medium", "description": "as the model does"}],
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "additional_speed_tiers": [],
        "service_tiers": [],
        "availability_nux": None,
        "upgrade": None,
        "base_instructions": _INSTRUCTIONS,
        "include_skills_usage_instructions": False,
        "include_plugin_usage_instructions": False,
        "include_apps_usage_instructions": False,
        "default_reasoning_summary": "none",
        "supports_reasoning_summaries": False,
        "support_verbosity": False,
        "default_verbosity": None,
        "apply_patch_tool_type": "freeform",
        "web_search_tool_type": "text",
        "truncation_policy": {"mode": "tokens", "limit": 10000},
        "supports_parallel_tool_calls": False,
        "supports_image_detail_original": False,
        "context_window": 128000,
        "max_context_window": 128000,
        "effective_context_window_percent": 95,
        "experimental_supported_tools": [],
        "input_modalities": ["text"],
        "supports_search_tool": False,
    }
    return json.dumps({"models": [entry]})


_INSTRUCTIONS: Final = (
    "You are a coding agent. You work in a folder with the files of a repository, without a network. Read what you need with "
    "shell commands, change files with apply_patch, run the tests that you are given, and stop when the task is done."
)
