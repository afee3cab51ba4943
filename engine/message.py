"""The base of what a worker and the program say to each other."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """A frozen value that comes as JSON, and refuses what it does not know."""

    # pydantic writes NaN and infinity as null unless told otherwise; a diverged loss must survive the trip
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", defer_build=True)
