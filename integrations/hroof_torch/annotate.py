"""Layer and phase marks for a model by hand, for tools that watch from outside."""

from __future__ import annotations

from types import TracebackType

from torch import nn

from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.marking import MarkRanges
from hroof_torch.tracking.tracker import Tracker

_users = 0
_shared: tuple[Tracker, LayerMap] | None = None


class Annotation:
    """Marks are on until ``remove`` is called or the block ends; several may overlap."""

    def __init__(self, model: nn.Module) -> None:
        global _users, _shared
        if _shared is None:
            layers = LayerMap()
            tracker = Tracker(layers)
            tracker.attach(MarkRanges(layers, tracker))
            _shared = (tracker, layers)
        _shared[1].root(model)
        _users += 1
        self._removed = False

    def remove(self) -> None:
        """Stop marking; with the last one everything is as it was. Safe to call twice."""
        global _users, _shared
        if self._removed:
            return
        self._removed = True
        _users -= 1
        if _users == 0 and _shared is not None:
            _shared[0].detach()
            _shared = None

    def __enter__(self) -> Annotation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


def annotate(model: nn.Module) -> Annotation:
    """Mark the layers and phases of a model for whoever listens (``hroof.regions.listen``).

    Returns:
        A handle: usable in ``with``, and by ``.remove()``.

    Raises:
        RuntimeError: A region is measuring already.
    """
    return Annotation(model)
