"""Ways to get launches, and the marks that tell an outside tool where they belong."""
