"""Readers: one foreign format each → the launch table."""

from hroof.readers.raw import Ranges, Raw

__all__ = ["Ranges", "Raw"]
