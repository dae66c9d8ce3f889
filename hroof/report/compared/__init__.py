"""Reports of two runs side by side: text, JSON, CSV, charts and one HTML page, from a Comparison alone."""
