"""The measuring of one region: captures, and the steps that they read, by how TensorFlow runs them."""
