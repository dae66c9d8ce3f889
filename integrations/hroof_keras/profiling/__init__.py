"""TensorFlow's own profiler: a session, its file, and what that says."""
