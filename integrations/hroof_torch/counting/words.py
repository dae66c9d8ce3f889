"""Word lists: names of ops, written as text."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The distinct words of a text."""
    return frozenset(text.split())
