"""Kinds and styles of charts beside the plain Roofline: as times, one panel per phase, the paper's, dark."""
