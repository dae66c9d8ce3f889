"""Where a running program is: its layers, backward passes and optimizers, on every thread."""
