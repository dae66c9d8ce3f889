"""hroof: the hierarchical Roofline of a training program, layer by layer."""

__version__ = "0.1.0"
