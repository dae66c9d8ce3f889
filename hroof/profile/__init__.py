"""Profile: the launch table of one run, its schema, saving and loading."""

from hroof.profile.profile import Profile
from hroof.profile.schema import (
    CONVENTIONS,
    SCHEMA,
    SCHEMA_VERSION,
    Column,
    bytes_column,
    conform,
    flop_column,
    source_column,
)

__all__ = [
    "CONVENTIONS",
    "SCHEMA",
    "SCHEMA_VERSION",
    "Column",
    "Profile",
    "bytes_column",
    "conform",
    "flop_column",
    "source_column",
]
