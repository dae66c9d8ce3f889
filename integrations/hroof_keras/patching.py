"""Methods of Keras' classes, replaced for a while and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Patches:
    """What was replaced, in order; false when nothing is."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._undo)

    def replace(self, kind: type, name: str, wrap: Callable[[Any], Any]) -> None:
        """Put a wrapper in place of a class's own method.

        Args:
            kind: The class.
            name: Of the method.
            wrap: Makes the wrapper of the original.
        """
        original = vars(kind)[name]
        wrapper = wrap(original)
        setattr(kind, name, wrapper)

        def restore() -> None:
            # Somebody else may have wrapped the wrapper; it then only passes calls on.
            if vars(kind).get(name) is wrapper:
                setattr(kind, name, original)

        self.add(restore)

    def add(self, restore: Callable[[], None]) -> None:
        """What was replaced in another way.

        Args:
            restore: Puts it back.
        """
        self._undo.append(restore)

    def undo(self) -> None:
        """Put everything back as it was; safe to call twice."""
        while self._undo:
            self._undo.pop()()
