"""Reports: text, exports, charts and HTML, each from a Profile and a Machine alone."""
