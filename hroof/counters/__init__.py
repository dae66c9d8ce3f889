"""Counters of a device: which to ask for on which chip, and what work they stand for."""
