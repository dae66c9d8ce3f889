"""Executed graphs: nodes, edges, shapes, and the place of every node."""
