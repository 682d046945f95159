"""Part of a recipe: a model that refuses keys it does not know."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Settings that cannot be changed once they are checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)
