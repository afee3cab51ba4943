"""A timing as plain JSON values, in the shape that `ammeter profile --json` prints."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from engine.protocol.timing.timing import Timing
from engine.timing.gain import gains, verdicts
from engine.timing.names import side_names


def as_json(timing: Timing) -> dict[str, Any]:
    """The sides with their experiments, profiles, verdicts, gains over the first side, and problems."""
    sides = zip(side_names(timing), verdicts(timing), gains(timing), timing.sides, strict=True)
    return {
        "sides": [
            {
                "name": name,
                "verdict": None if verdict is None else asdict(verdict),
                "gain": None if gain is None else asdict(gain),
                "mfu": None if side.profile is None else side.profile.mfu,
                **json.loads(side.model_dump_json()),
            }
            for name, verdict, gain, side in sides
        ]
    }
