"""PyTorch's profiler: its trace with ranges of layers and phases, read as timed ops."""
