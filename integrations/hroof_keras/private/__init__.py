"""Names of TensorFlow, Keras and JAX that are not public: each is looked for, and hroof does without where it can."""
