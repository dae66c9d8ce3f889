"""A checked run as text, Markdown and JSON."""
