"""``python -m hroof`` is the command line."""

import sys

from hroof.cli import main

if __name__ == "__main__":
    sys.exit(main())
