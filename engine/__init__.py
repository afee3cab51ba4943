"""Everything in Ammeter except the window: describes, trains, measures, records and compares runs."""

from __future__ import annotations

import os

__version__ = "0.1.0"

# there are none that this program needs, and looking for them reads the metadata of every installed package
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
