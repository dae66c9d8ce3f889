"""Watches for losses that are not finite, so that the report can say so."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from hroof.units import Phase
from hroof_torch.tracking.graph import tensors_of
from hroof_torch.tracking.tracker import Frame


class LossWatch:
    """Looks at the roots of each backward pass in the counting step."""

    def __init__(self) -> None:
        self._not_finite = 0

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Look at the roots of a backward pass."""
        if frame.phase is not Phase.BACKWARD or frame.layer is not None:
            return
        with torch.utils._python_dispatch._disable_current_modes():
            for root in tensors_of(args[0]):
                # A call that is replayed for counting has no values.
                if root.numel() == 1 and not isinstance(root, FakeTensor):
                    self._not_finite += not bool(torch.isfinite(root.detach()).all())

    def leave(self, frame: Frame, output: Any) -> None:
        """Nothing to do."""

    def warnings(self) -> list[str]:
        """What the reader should know."""
        if not self._not_finite:
            return []
        return [
            "The loss was not finite (NaN or infinity): the times stand, but the training does not."
        ]
