"""What every policy file is made of: frozen models that refuse a field they do not know."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class PolicyModel(BaseModel):
    """Base of all policy files and their parts."""

    model_config = ConfigDict(extra="forbid", frozen=True)
