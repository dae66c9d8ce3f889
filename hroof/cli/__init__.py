"""The command line: arguments in, exit codes out."""

from hroof.cli.main import main

__all__ = ["main"]
