"""Ceilings with TensorFlow's kernels: products, loops of XLA's, launches, the sweep."""
