"""Which tensors an op must read and write, and how many distinct bytes of each.

Nothing stays in a cache between ops and everything is reused within one: an op reads the distinct elements of
each argument once and writes the distinct elements of each result once. Sparse access has rules of its own in
``sparse_access``. The sums are a lower bound of the traffic of the level nearest to the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from hroof.traffic import Access
from hroof_torch.counting.schema import OpInfo
from hroof_torch.counting.words import words

NO_TRAFFIC = words(
    """
    empty empty_like empty_strided empty_permuted empty_quantized new_empty new_empty_strided set
    resize resize_as _local_scalar_dense item record_stream _fused_sdp_choice is_same_size is_pinned
    lift lift_fresh _efficientzerotensor sym_size sym_stride sym_numel sym_storage_offset
    sym_is_contiguous is_contiguous is_strides_like_format is_non_overlapping_and_dense stride size
    numel dim _has_compatible_shallow_copy_type promote_types result_type _assert_tensor_metadata
    _linalg_check_errors
    """
)
"""Ops by base name that move no data worth counting."""

METADATA = words(
    """
    detach t transpose squeeze unsqueeze swapaxes swapdims as_strided rename requires_grad
    """
)
"""Ops by base name that change only the description of a tensor, in place or not."""

WRITE_ONLY = words(
    """
    copy fill zero uniform normal bernoulli random exponential geometric log_normal cauchy
    _foreach_copy
    """
)
"""In-place ops by base name that do not read what they overwrite."""

SHAPE_ONLY = words(
    """
    zeros_like ones_like full_like rand_like randn_like randint_like new_zeros new_ones new_full
    """
)
"""Ops by base name that look only at the shape of their argument."""

UNREAD: dict[str, frozenset[str]] = {
    base: frozenset(names.split())
    for base, names in {
        "max_pool2d_with_indices_backward": "self",
        "max_pool3d_with_indices_backward": "self",
        "adaptive_max_pool2d_backward": "self",
        "adaptive_max_pool3d_backward": "self",
        "avg_pool2d_backward": "self",
        "avg_pool3d_backward": "self",
        "_adaptive_avg_pool2d_backward": "self",
        "_adaptive_avg_pool3d_backward": "self",
        "reflection_pad1d_backward": "self",
        "reflection_pad2d_backward": "self",
        "reflection_pad3d_backward": "self",
        "replication_pad1d_backward": "self",
        "replication_pad2d_backward": "self",
        "replication_pad3d_backward": "self",
        "masked_scatter_backward": "sizes",
        "mkldnn_rnn_layer_backward": "workspace",
        "_cudnn_rnn": "weight_buf dropout_state",
        "_cudnn_rnn_backward": "weight_buf dropout_state reserve",
    }.items()
}
"""Arguments that an op takes without needing their elements."""


data_address = torch._C._data_address
"""Address of a tensor's storage, 0 without data; unlike ``data_ptr`` it never copies."""

storage_handle = torch._C._storage_address
"""Identity of a storage while it lives; unlike ``untyped_storage`` it makes no Python object."""


@dataclass(slots=True)
class Traffic:
    """Bytes of one op, by tensor.

    Attributes:
        read: Bytes read, keyed by what tells two views apart; the buffer comes first in the key.
        written: Bytes written, likewise.
        is_view: The results only alias the arguments.
    """

    read: dict[tuple[Any, ...], float] = field(default_factory=dict)
    written: dict[tuple[Any, ...], float] = field(default_factory=dict)
    is_view: bool = False

    @property
    def bytes_read(self) -> float:
        """Σ bytes read."""
        return float(sum(self.read.values()))

    @property
    def bytes_written(self) -> float:
        """Σ bytes written."""
        return float(sum(self.written.values()))

    def accesses(self) -> tuple[Access, ...]:
        """One access per buffer that is read or written; two where the amounts differ."""
        read, written = _by_buffer(self.read), _by_buffer(self.written)
        both = {buffer for buffer in read if written.get(buffer) == read[buffer]}
        found = [Access(buffer, size, True, buffer in both) for buffer, size in read.items()]
        rest = [item for item in written.items() if item[0] not in both]
        return (*found, *(Access(buffer, size, False, True) for buffer, size in rest))


def _by_buffer(entries: dict[tuple[Any, ...], float]) -> dict[int, float]:
    sums: dict[int, float] = {}
    for key, nbytes in entries.items():
        sums[key[0]] = sums.get(key[0], 0.0) + nbytes
    return {buffer: nbytes for buffer, nbytes in sums.items() if nbytes}


class Buffers:
    """Names storages: real ones by their address, those without data by numbers of their own."""

    def __init__(self) -> None:
        self._virtual: dict[int, tuple[StorageWeakRef, int]] = {}

    def name(self, tensor: Any) -> int:
        """Identity of a tensor's storage among all that this object has named."""
        address = int(data_address(tensor))
        if address:
            return address
        handle = int(storage_handle(tensor))
        if tensor.numel() == 0:
            return -handle
        known = self._virtual.get(handle)
        if known is None:
            # The weak reference keeps the handle from being given to another storage.
            known = StorageWeakRef(tensor.untyped_storage()), -1 - len(self._virtual)
            self._virtual[handle] = known
        return known[1]


def has_storage(tensor: Any) -> bool:
    """Whether the elements of a tensor lie in one strided storage."""
    return tensor.layout is torch.strided and not tensor.is_nested


def distinct_elements(sizes: Iterable[int], strides: Iterable[int]) -> int:
    """Distinct elements that a strided view covers.

    Dimensions of stride 0 count once; overlapping windows cannot exceed their span.
    """
    elements, span = 1, 1
    for length, step in zip(sizes, strides, strict=True):
        if length == 0:
            return 0
        if step:
            elements *= length
            span += (length - 1) * step
    return min(elements, span)


class Meter:
    """Measures the tensors of ops.

    Args:
        buffers: Names of storages, shared by all ops of a stream.
    """

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def parts(self, tensor: Any) -> list[tuple[tuple[Any, ...], float]]:
        """Keys and bytes of a tensor: one part, or several for a sparse one."""
        if has_storage(tensor):
            sizes, strides = tensor.shape, tensor.stride()
            key = (self._buffers.name(tensor), tensor.storage_offset(), sizes, strides)
            return [(key, float(distinct_elements(sizes, strides) * tensor.element_size()))]
        components = _components(tensor)
        if components is None:
            return [((id(tensor),), float(tensor.numel() * tensor.element_size()))]
        return [part for component in components for part in self.parts(component)]

    def traffic(
        self, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: list[Any]
    ) -> Traffic:
        """What one call reads and writes, by the general rules."""
        traffic = Traffic()
        if info.base in NO_TRAFFIC or not info.known:
            return traffic
        if info.base in METADATA:
            return Traffic(is_view=True)
        storages: set[int] = set()
        writes = self._arguments(info, args, kwargs, traffic, storages)
        fresh = False
        for tensor in outputs:
            if has_storage(tensor) and storage_handle(tensor) in storages:
                continue
            fresh = True
            for key, nbytes in self.parts(tensor):
                traffic.written[key] = nbytes
        if outputs and not fresh and not writes:
            return Traffic(is_view=True)
        return traffic

    def _arguments(
        self,
        info: OpInfo,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        traffic: Traffic,
        storages: set[int],
    ) -> bool:
        """Charge the arguments; whether one of them is written."""
        unread = UNREAD.get(info.base, ())
        shape_only, overwrites = info.base in SHAPE_ONLY, info.base in WRITE_ONLY
        writes = False
        for argument, tensor in info.tensors(args, kwargs):
            if not isinstance(tensor, torch.Tensor):
                continue
            if has_storage(tensor):
                storages.add(storage_handle(tensor))
            written = argument.written
            writes |= written
            read = not (argument.is_out or shape_only or argument.name in unread)
            read = read and not (written and overwrites)
            if read or written:
                for key, nbytes in self.parts(tensor):
                    if read:
                        traffic.read[key] = nbytes
                    if written:
                        traffic.written[key] = nbytes
        return writes


_COMPONENTS: dict[Any, Callable[[Any], list[Any]]] = {
    torch.sparse_coo: lambda tensor: [tensor._indices(), tensor._values()],
    torch.sparse_csr: lambda tensor: [
        tensor.crow_indices(),
        tensor.col_indices(),
        tensor.values(),
    ],
    torch.sparse_csc: lambda tensor: [
        tensor.ccol_indices(),
        tensor.row_indices(),
        tensor.values(),
    ],
}
_COMPONENTS[torch.sparse_bsr] = _COMPONENTS[torch.sparse_csr]
_COMPONENTS[torch.sparse_bsc] = _COMPONENTS[torch.sparse_csc]


def _components(tensor: Any) -> list[Any] | None:
    """The dense tensors that a sparse or nested tensor consists of; None where it does not tell."""
    if tensor.is_nested:
        return [tensor.values()]
    split = _COMPONENTS.get(tensor.layout)
    return None if split is None else split(tensor)
