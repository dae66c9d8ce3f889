"""The folder that ``hroof run`` puts first in PYTHONPATH; it holds the start-up hook alone."""
