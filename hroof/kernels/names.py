"""Names of kernels: the base name and the display name of what a profiler prints.

A name is what a tool printed: demangled C++ with return type, namespaces, template arguments and arguments, a plain
symbol, a mangled one (Itanium C++ ABI), or any of these cut off. Nothing here fails on a name that it cannot read:
the name itself is then the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

WRAPPERS = re.compile(
    r"Kernel2?|kernel|device_kernel|globalKernel|_?kernel_agent|enable_\w+|static_kernel", re.ASCII
)
"""Base names that say nothing: the first telling template argument names the kernel (``cutlass::Kernel2<…>``)."""

GENERIC = re.compile(
    r"""
    # PyTorch: loops over elements, and what they wrap around the functor
    (vectorized_|unrolled_|index_)?(legacy_)?elementwise_kernel(_\w+)? | (opmath_)?(symmetric_)?gpu_kernel_\w+
    | gpu_index_kernel | [AB]UnaryFunctor | BinaryFunctor | (distribution|reduce)\w*_kernel\w* | ReduceOp 
    | func_wrapper_t | multi_tensor_apply_kernel | \w+_and_transform
    # Eigen: an expression as a type
    | EigenMetaKernel\w* | TensorEvaluator | TensorAssignOp | TensorCwise(Nullary|Unary|Binary)Op | TensorForcedEvalOp
    | scalar_(left|right)
    # Thrust and CUB
    | (Parallel)?ForAgent | for_each_f | unary_transform_f | binary_transform_f
    """,
    re.VERBOSE | re.ASCII,
)
"""Base names of loops that apply what a template argument names (``vectorized_elementwise_kernel<4, FillFunctor>``)."""

_PLAIN = re.compile(
    r"""
    \(?[-\d(].* | T\d+ | (un)?signed.* | bool | char | short | int | long.* | u?int\d+_t | float\d? | double\d? | size_t
    | void | true | false | half\d? | Half | BFloat16 | bfloat16(_t)? | half_t | __half | __nv_\w+ | Float8\w* | complex
    | \w*TensorListMetadata | TensorMap | Tensor | tuple | array | Array | policy\w* | \w*[Pp]olicy\w* | identity
    """,
    re.VERBOSE | re.ASCII,
)
"""Template arguments that name no operation: numbers, element types, containers."""

_NONE: tuple[str, ...] = ()
_ACTIVITY = re.compile(r"(Memcpy|Memset)\b[^(]*")
_QUALIFIERS = re.compile(r"(\s*(\bconst\b|\bvolatile\b|[&*]))+$")
_RETURN = re.compile(r"^(\s*(const|void|typename|static)\s+)+")
_OPERATOR = re.compile(
    r"operator(\s*(\(\)|\[\]|<=>|->\*?|<<=?|>>=?(?!:)|[-+*/%^&|~!=<>]=|&&|\|\||\+\+|--|[-+*/%^&|~!=<>,])|\s+[\w:]+)"
)
_AROUND = re.compile(r"( const)?(?=::)")
_NAMELESS = re.compile(r"\(anonymous [a-z]+\)|<unnamed>|unnamed>")
_BRACKET = re.compile(r"->|[<>(){}\[\]]")
_TOKEN = re.compile(r"::|\s+|[<({\[/]|[^\s<>(){}\[\]/:]+|.", re.DOTALL)
_PAIRS = {"<": ">", "(": ")", "{": "}", "[": "]"}
_MANGLED = re.compile(r"_ZN?[VK]*(?=L?\d|St\d)")
_LENGTH = re.compile(r"(?:L|St)?(\d+)")


@dataclass(frozen=True, slots=True)
class KernelName:
    """A name taken apart.

    Attributes:
        base: The name alone: no return type, namespaces, template arguments or arguments.
        template: Its template arguments, as text.
        scope: The named namespaces and classes around it, outermost first.
    """

    base: str
    template: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()

    @property
    def qualified(self) -> str:
        """The name with its namespaces, e.g. ``cudnn::ops::nchwToNhwcKernel``."""
        return "::".join((*self.scope, self.base))


@lru_cache(maxsize=65536)
def parse(name: str) -> KernelName:
    """Take a kernel's name apart.

    A lambda or a call operator goes by the name of the function or class around it.

    Args:
        name: As a tool printed it, complete or cut off.
    """
    text = _RETURN.sub("", _QUALIFIERS.sub("", name.strip()))
    activity = _ACTIVITY.match(text)
    if activity:
        return KernelName(activity.group().strip())
    mangled = _MANGLED.match(text)
    parts = _mangled(text, mangled.end()) if mangled else _parts(text)
    named = [part for part in parts if part.base and part.base[0] not in "(<{["]
    while len(named) > 1 and named[-1].base == "operator()":
        named.pop()
    if not named:
        return KernelName(name.strip())
    return KernelName(named[-1].base, named[-1].template, tuple(part.base for part in named[:-1]))


def base_name(name: str) -> str:
    """The name alone: ``void at::native::reduce_kernel<512, 1>(int)`` → ``reduce_kernel``."""
    return parse(name).base


@lru_cache(maxsize=65536)
def display_name(name: str) -> str:
    """The base name; for a wrapper the name of the kernel that it wraps.

    ``void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_f16>(T1::Params)`` →
    ``cutlass_80_tensorop_s16816gemm_f16``.
    """
    found = parse(name)
    if not WRAPPERS.fullmatch(found.base):
        return found.base
    for argument in found.template:
        inner = parse(argument)
        if _tells(inner):
            return display_name(argument)
    return "::".join((*found.scope[-1:], found.base))


@lru_cache(maxsize=65536)
def operation_name(name: str) -> str:
    """What a generic loop applies: the functor, function or expression in its template arguments.

    ``void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, …>(…)`` → ``FillFunctor``.

    Returns:
        An empty text where the kernel is no such loop or does not say.
    """
    found = parse(name)
    if not GENERIC.fullmatch(found.base):
        return ""
    telling = [argument for argument in found.template if _tells(parse(argument))]
    # An Eigen assignment to a plain tensor leaves only the right side telling; one between tensors is a copy.
    if not telling:
        return found.base if found.base == "TensorAssignOp" else ""
    inner = parse(telling[0])
    if not GENERIC.fullmatch(inner.base):
        return inner.base
    return operation_name(telling[0]) or inner.base


def _tells(name: KernelName) -> bool:
    return name.scope[:1] != ("std",) and not _PLAIN.fullmatch(name.base)


def _parts(text: str) -> list[KernelName]:
    """The parts of a demangled name between the ``::``; what precedes the last outer blank is the return type."""
    parts: list[KernelName] = []
    base, template = "", _NONE
    at = 0
    while at < len(text):
        # An operator or a nameless namespace holds signs that would mean something else elsewhere.
        whole = None if base else _OPERATOR.match(text, at) or _NAMELESS.match(text, at)
        if whole:
            base, at = whole.group().replace("operator (", "operator("), whole.end()
            continue
        token = _token(text, at)
        if token in _PAIRS:
            end = _closing(text, at)
            if token == "<" and base:
                template = tuple(_split(text[at + 1 : end]))
            elif token in "{[" and not base:
                base = text[at : end + 1]
            at = end + 1
            if token == "(" and base:
                # Arguments that "::" follows belong to a function around the kernel.
                around = _AROUND.match(text, at)
                if not around:
                    break
                at = around.end()
            continue
        at += len(token)
        if token == "::":
            parts.append(KernelName(base, template))
            base, template = "", _NONE
        elif token == "/" or (token.isspace() and not text.startswith(("<", "("), at)):
            parts, base, template = [], "", _NONE
        elif not token.isspace() and token not in _PAIRS.values():
            base += token
    return [*parts, KernelName(base, template)] if base else parts


def _token(text: str, at: int) -> str:
    found = _TOKEN.match(text, at)
    return found.group() if found else text[at]


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at ``start`` closes; the end of a text in which it does not."""
    open_ones: list[str] = []
    for found in _BRACKET.finditer(text, start):
        sign = found.group()
        if sign in _PAIRS:
            open_ones.append(_PAIRS[sign])
        elif sign in open_ones and (sign != ">" or open_ones[-1] == ">"):
            # A lone "<" is an operator; the bracket around it closes both.
            while open_ones.pop() != sign:
                pass
            if not open_ones:
                return found.start()
    return len(text)


def _split(text: str) -> Iterator[str]:
    """The template arguments of a list, at its outer commas."""
    start = at = 0
    while at < len(text):
        if text[at] in _PAIRS:
            at = _closing(text, at)
        elif text[at] == ",":
            yield text[start:at].strip()
            start = at + 1
        at += 1
    if text[start:].strip():
        yield text[start:].strip()


def _mangled(text: str, at: int) -> list[KernelName]:
    """The parts of a mangled name: each is its length and its text; ``I`` opens the template arguments."""
    bases: list[str] = []
    while found := _LENGTH.match(text, at):
        at = found.end() + int(found[1])
        bases.append(text[found.end() : at])
    template = _NONE
    if bases and text.startswith("I", at):
        inner = _mangled(text, at + 2 if text.startswith("IN", at) else at + 1)
        template = ("::".join(part.base for part in inner),) if inner else _NONE
    named = [base for base in bases if not base.startswith("_GLOBAL__N")]
    parts = [KernelName(base) for base in named[:-1]]
    return [*parts, KernelName(named[-1], template)] if named else []
