"""What can be wrong with prompts."""

from __future__ import annotations

from gatewright.errors import ConfigurationError


class PromptsError(ConfigurationError):
    """The folder of prompts cannot be read, or a file in it is not what it should be. Correct the file that is named."""

    code = "prompts_invalid"
