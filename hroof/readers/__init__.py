"""Readers: one foreign format each → the launch table."""

from hroof.readers.assemble import profile_of
from hroof.readers.files import read
from hroof.readers.raw import Ranges, Raw

__all__ = ["Ranges", "Raw", "profile_of", "read"]
