"""Driving Nsight Compute: finding it, asking it, understanding what it says."""
