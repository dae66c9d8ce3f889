"""FLOP rules, by family; a rule is a small function of the shapes of one call."""
