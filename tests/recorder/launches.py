"""Stand-ins for kernels, for programs that run under the recorder: marks in a domain of their own."""

from __future__ import annotations

from typing import Any


def launch(name: str) -> None:
    """Pretend that this thread launches a kernel now."""
    import nvtx

    nvtx.mark(name, domain="launches")


def launches_of_ops() -> Any:
    """A context in which every PyTorch op that a thread runs launches one kernel of its name.

    The name is the overload packet's, such as ``mm``. Views launch nothing and have no mark.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Launching(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if not (isinstance(func, torch._ops.OpOverload) and func.is_view):
                launch(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    return Launching()
