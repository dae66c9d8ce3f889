"""Layer and phase marks for a model by hand, for tools that watch from outside."""

from __future__ import annotations

from types import TracebackType

from torch import nn

from hroof_torch.layers import LayerMap
from hroof_torch.marking import MarkRanges
from hroof_torch.tracker import Tracker


class Annotation:
    """Marks are on until ``remove`` is called or the block ends."""

    def __init__(self, model: nn.Module) -> None:
        layers = LayerMap()
        layers.root(model)
        self._tracker = Tracker(layers)
        self._tracker.attach(MarkRanges(layers, self._tracker))

    def remove(self) -> None:
        """Put everything back as it was; safe to call twice."""
        self._tracker.detach()

    def __enter__(self) -> Annotation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def annotate(model: nn.Module) -> Annotation:
    """Mark the layers and phases of a model for whoever listens (``hroof.regions.listen``).

    Returns:
        A handle: usable in ``with``, and by ``.remove()``.

    Raises:
        RuntimeError: Another annotation or a region is marking already.
    """
    return Annotation(model)
