"""Predicted traffic: which bytes of an op stream cross each memory level, by an LRU cache model."""

from hroof.traffic.prediction import predict
from hroof.traffic.stream import Access, MatrixShape, Touch

__all__ = ["Access", "MatrixShape", "Touch", "predict"]
