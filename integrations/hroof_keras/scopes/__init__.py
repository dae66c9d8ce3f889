"""Layers and the name scopes in which their ops are traced."""
