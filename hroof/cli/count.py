"""Stub."""

import argparse
from hroof.cli.command import Command

COMMAND = Command("count", "h", "d", (), lambda p: None, lambda a: 0)
