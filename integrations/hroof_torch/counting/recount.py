"""Counting again with other shapes: for timed ops whose shapes no counted op had."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from hroof.launches import Work
from hroof.units import Source
from hroof_torch.counting.bare import bare_templates
from hroof_torch.counting.counter import Counter
from hroof_torch.counting.overloads import overloads
from hroof_torch.counting.schema import Kind, OpInfo, op_info
from hroof_torch.counting.signature import DTYPES, Shape, Signature, list_position
from hroof_torch.counting.template import Spec, Template
from hroof_torch.counting.words import words

_VIEW = Work({}, {}, 0.0, 0.0, Source.COUNTED, is_view=True)
_SIZES = words(
    """
    size sizes self_size input_sizes input_size output_size normalized_shape split_sizes split_size
    N C length
    """
)
"""Names of arguments that repeat lengths of a tensor's dimensions."""


def recount(name: str, signature: Signature, template: Template | None = None) -> Work | None:
    """Work of an op from its name and the shapes of its tensors.

    Args:
        name: Name without the overload, e.g. ``aten::addmm``.
        signature: Shapes and dtypes of its tensor arguments, as ``profiler_signature`` gives them.
        template: A call of the same op with other shapes; its remaining arguments are taken over, and lengths
            that they repeat follow the new shapes.

    Returns:
        The work, with no buffers to follow; None where shapes do not decide it. Without a template, lists of
        tensors are taken to have the default dtype, which the profiler does not tell.
    """
    try:
        if template is not None and op_info(template.function).name == name:
            return _from_template(template, signature)
        known = overloads(name)
        if known and all(_always_view(info) for info in known if not info.composite):
            return _VIEW
        for bare in bare_templates(name, signature):
            work = _from_template(bare, signature)
            if work is not None:
                return work
    except Exception:  # shapes that do not belong together: nothing can be said
        return None
    return None


def _from_template(template: Template, signature: Signature) -> Work | None:
    info = op_info(template.function)
    if _always_view(info):
        return _VIEW
    refit = _Refit(info, template, signature)
    if not refit.fits:
        return None
    with _fake(), torch.no_grad():
        args, kwargs = refit.call(_empty)
        result = info.function(*args, **kwargs)
        counter = Counter()
        work = counter.count(info, args, kwargs, result)
    if counter.faults:
        return None
    return Work(
        work.nominal,
        work.least,
        work.bytes_read,
        work.bytes_written,
        work.source,
        type(work.touch)((), work.touch.matrix),
        work.is_view,
    )


def _always_view(info: OpInfo) -> bool:
    """Whether the schema says that every result only aliases an argument."""
    returns = info.function._schema.returns
    aliases = [value.alias_info for value in returns]
    only_reads = all(alias is not None and not alias.is_write for alias in aliases)
    return info.base == "_unsafe_view" or (bool(aliases) and only_reads)


@functools.lru_cache(maxsize=1)
def _fake() -> Any:
    return FakeTensorMode(allow_non_fake_inputs=True)


def _empty(spec: Spec) -> Any:
    device = spec.device if spec.device != "cuda" or torch.cuda.is_available() else "cpu"
    stride = _strides(spec.shape, spec.stride)
    return torch.empty_strided(spec.shape, stride, dtype=spec.dtype, device=device)


def _strides(shape: Shape, like: tuple[int, ...] | None) -> tuple[int, ...]:
    """Dense strides in the order of other strides; a stride of 0 stays."""
    order = sorted(range(len(shape)), key=lambda d: (like[d] if like else 0, -d))
    if like is None:
        order = list(range(len(shape) - 1, -1, -1))
    strides, step = [0] * len(shape), 1
    for dim in order:
        if like is not None and like[dim] == 0 and shape[dim] > 1:
            continue
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


class _Refit:
    """A template with the shapes of a signature.

    Attributes:
        fits: The signature has as many tensors as the template, of the same dtypes.
    """

    def __init__(self, info: OpInfo, template: Template, signature: Signature) -> None:
        self._info, self._template = info, template
        self._lengths: dict[int, int] = {}
        self._new: Iterator[Spec] = iter(())
        old = list(self._specs())
        new = [self._respec(spec, entry) for spec, entry in zip(old, signature, strict=False)]
        self.fits = len(old) == len(signature) and None not in new
        if self.fits:
            self._specs_new: list[Spec] = [spec for spec in new if spec is not None]
            self.fits = self._learn(old)

    def _specs(self) -> Iterator[Any]:
        """What the signature has entries for: specs, and numbers in the place of tensors."""
        for argument, value in self._info.tensors(self._template.args, dict(self._template.kwargs)):
            if argument.kind is not Kind.OPTIONAL_TENSORS:
                yield value

    def _respec(self, old: Any, entry: tuple[Shape, str]) -> Any:
        shape, dtype = entry
        if not isinstance(old, Spec):
            return old if shape == () else None
        if list_position(dtype) is None and DTYPES.get(dtype) not in (old.dtype, None):
            return None
        same_rank = len(shape) == len(old.shape)
        return Spec(shape, old.dtype, old.stride if same_rank else None, old.device)

    def _learn(self, old: list[Any]) -> bool:
        """Learn which length became which; False when one became two."""
        for before, after in zip(old, self._specs_new, strict=True):
            if not isinstance(before, Spec) or len(before.shape) != len(after.shape):
                continue
            for length, now in zip(before.shape, after.shape, strict=True):
                if length != 1 and self._lengths.setdefault(length, now) != now:
                    self._lengths[length] = -1
        return True

    def call(self, make: Callable[[Spec], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with tensors made by ``make``.

        Raises:
            ValueError: A length that is repeated outside the tensors cannot be told.
        """
        self._new = iter(self._specs_new)
        arguments = {argument.name: argument for argument in self._info.arguments}
        names = self._info.positional
        args = tuple(
            self._value(arguments[name], value, make)
            for name, value in zip(names, self._template.args, strict=False)
        )
        kwargs = dict(self._template.kwargs)
        in_order = [name for name in names if name in kwargs]
        return args, {name: self._value(arguments[name], kwargs[name], make) for name in in_order}

    def _value(self, argument: Any, value: Any, make: Callable[[Spec], Any]) -> Any:
        if value is None:
            return None
        if argument.kind is Kind.TENSOR:
            spec = next(self._new)
            return make(spec) if isinstance(spec, Spec) else spec
        if argument.kind is Kind.TENSORS:
            return [make(next(self._new)) for _ in value]
        if argument.kind is Kind.OPTIONAL_TENSORS:
            return [None if spec is None else make(self._follow(spec)) for spec in value]
        if argument.name == "HxW":
            first = self._specs_new[0].shape
            return math.prod(first[2:])
        return self._lengths_in(value) if argument.name in _SIZES else value

    def _follow(self, spec: Spec) -> Spec:
        return Spec(tuple(map(self._length, spec.shape)), spec.dtype, None, spec.device)

    def _lengths_in(self, value: Any) -> Any:
        return (
            [self._length(item) for item in value]
            if isinstance(value, tuple)
            else (self._length(value) if type(value) is int else value)
        )

    def _length(self, length: int) -> int:
        now = self._lengths.get(length, length)
        if now == -1:
            raise ValueError(f"length {length} became several lengths")
        return now
