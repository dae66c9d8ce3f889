"""Greedy, deterministic placing of labels: the first candidate that overlaps nothing wins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Box:
    """An upright rectangle in pixels.

    Attributes:
        x0: Left edge.
        y0: Lower edge.
        x1: Right edge.
        y1: Upper edge.
    """

    x0: float
    y0: float
    x1: float
    y1: float

    def overlaps(self, other: Box) -> bool:
        """Whether the two share an area."""
        return (
            self.x0 < other.x1 and other.x0 < self.x1 and self.y0 < other.y1 and other.y0 < self.y1
        )

    def inside(self, other: Box) -> bool:
        """Whether it lies in the other one."""
        return (
            other.x0 <= self.x0
            and self.x1 <= other.x1
            and other.y0 <= self.y0
            and self.y1 <= other.y1
        )


@dataclass
class Layout:
    """What is taken already within a frame.

    Attributes:
        frame: Labels stay in here.
        taken: Boxes that no label may cover.
    """

    frame: Box
    taken: list[Box] = field(default_factory=list)

    def free(self, boxes: Iterable[Box]) -> bool:
        """Whether all boxes lie in the frame and on nothing."""
        return all(
            box.inside(self.frame) and not any(box.overlaps(other) for other in self.taken)
            for box in boxes
        )

    def take(self, *boxes: Box) -> None:
        """Let no later label cover these."""
        self.taken.extend(boxes)


def around(x: float, y: float, width: float, height: float, gap: float) -> Iterator[Box]:
    """Candidate boxes for a label of this size around an anchor, nearest first."""
    sides = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
    for factor in (1.0, 2.2, 3.8, 6.0, 9.0, 13.0):
        for dx, dy in sides:
            reach = gap * factor * (0.75 if dx and dy else 1.0)
            cx, cy = x + dx * (reach + width / 2), y + dy * (reach + height / 2)
            yield Box(cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2)


def along(x: float, y: float, width: float, height: float, angle: float) -> list[Box]:
    """Small boxes that cover a label turned by ``angle`` (radians) about its lower left corner."""
    count = max(math.ceil(width / height), 1)
    cos, sin = math.cos(angle), math.sin(angle)
    half = height / 2 * (abs(cos) + abs(sin)) * 0.9
    boxes = []
    for index in range(count + 1):
        reach = width * index / count
        cx, cy = x + reach * cos - height / 2 * sin, y + reach * sin + height / 2 * cos
        boxes.append(Box(cx - half, cy - half, cx + half, cy + half))
    return boxes
