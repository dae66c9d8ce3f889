"""What a run that only marks leaves, so that launches within ranges of TensorFlow's own find their layers.

The graph is collected as in a run that measures: what is noted while functions are traced, and the graphs that are
executed, place every node. For programs of XLA the names of the traced ops are left as well, since XLA names its
instructions after them, and on a GPU the places of the instructions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from hroof.collect import tsl
from hroof.collect.tsl import Parts, Share
from hroof.launches import LOSS, LOSS_NAME
from hroof.units import Phase
from hroof_keras.graph.graphs import GraphCollection
from hroof_keras.graph.nodes import Node
from hroof_keras.graph.places import Place, Places, place_of_name
from hroof_keras.hlo import HloModule, HloPlaces
from hroof_keras.private import nvtx as private_nvtx
from hroof_keras.private import runtime as private
from hroof_keras.scopes.layers import LayerMap
from hroof_keras.scopes.recorder import Recorder
from hroof_keras.scopes.traced import LATE, learn_traced

UNKNOWN = (
    "No function of the captured steps was seen while it was traced, so what TensorFlow's nodes serve is not "
    "known. Open the region before the first step."
)


WHOLE = "Kernels that XLA made of ops of several layers go whole to the layer of the op that they are named after"
_PIPELINE = Place(Phase.DATA, None, "scope")


@dataclass(frozen=True)
class Known:
    """What a run that only marks knows of nodes.

    Attributes:
        places: The table, see ``hroof.collect.tsl``; empty where nothing is known.
        warnings: What a reader has to know of it.
    """

    places: dict[str, Any]
    warnings: tuple[str, ...] = ()


class NodePlaces:
    """Follows the tracing of functions from the begin of a region, and says at its end what their nodes serve."""

    def __init__(self) -> None:
        self.layers = LayerMap()
        self._recorder = Recorder(self.layers)
        self._graphs = GraphCollection()
        self._nodes: Mapping[str, Node] = {}
        self._running = False

    def start(self) -> None:
        """Follow from now on; functions that were traced before are not known."""
        self._running = True
        self._recorder.start()
        self._graphs.start()

    def stop(self) -> None:
        """Leave everything as it was; safe to call twice."""
        if self._running:
            self._running = False
            self._recorder.stop()
            self._nodes = self._graphs.stop()

    def run(self, model: Any = None) -> Known:
        """What is known at the end.

        Args:
            model: The model whose steps were captured, where one is known.
        """
        late = not self.layers.scopes and learn_traced(self.layers) > 0
        if not self.layers.scopes:
            return Known({}, (UNKNOWN,))
        names = [label.name for label in self.layers.labels()]
        places = Places(self.layers, (), self._nodes)
        modules, problem = self._modules(model) if private_nvtx.has_gpu() else ({}, "")
        nodes = dict.fromkeys([*_traced(private.traced_graphs()), *self._nodes])
        pipeline = set(_traced(private.pipeline_graphs())) - nodes.keys()
        made = table(
            names,
            [*nodes, *pipeline],
            lambda name: _PIPELINE if name in pipeline else places.of(name),
            modules,
        )
        told = (LATE if late else "", f"{WHOLE}: {problem}." if problem else "")
        return Known(made, tuple(filter(None, told)))

    def _modules(self, model: Any) -> tuple[dict[str, tuple[Iterable[str], Split]], str]:
        """The programs of XLA, compiled once more after the captured steps, and why there are none."""
        of_name = partial(place_of_name, self.layers, ())
        found: dict[str, tuple[Iterable[str], Split]] = {}
        try:
            for serialized in private_nvtx.compiled_programs(model):
                module = HloModule.read(serialized)
                found[module.name] = module.hlos, partial(_split, HloPlaces(module, of_name))
        except Exception as error:  # whatever XLA says: the rest of the table is good without
            return {}, f"their program could not be compiled once more ({error!r})"
        return found, ""


def _traced(graphs: Iterable[Any]) -> Iterable[str]:
    """Names of the ops of functions: instructions of XLA, and nodes that were not collected, are called so."""
    for graph in graphs:
        yield from (operation.name for operation in graph.get_operations())


def _split(places: HloPlaces, name: str) -> Iterable[tuple[Phase, int | None, float]]:
    return [(part.phase or Phase.OTHER, part.layer, part.share) for part in places.parts(name)]


class Placed(Protocol):
    """What is known of a node."""

    @property
    def phase(self) -> Phase:
        """What it serves."""

    @property
    def layer(self) -> int | None:
        """Number of the layer; None where it serves no layer."""

    @property
    def rule(self) -> str:
        """How that is known; ``none`` where it is not."""

    @property
    def recompute(self) -> bool:
        """Whether it computes forward work again."""


Split = Callable[[str], Iterable[tuple[Phase, int | None, float]]]
"""Phases, layers and shares of an instruction, by name; the shares sum to 1."""


def table(
    names: Sequence[str],
    nodes: Iterable[str],
    place: Callable[[str], Placed],
    modules: Mapping[str, tuple[Iterable[str], Split]] | None = None,
) -> dict[str, Any]:
    """The table of places by name of node.

    Args:
        names: Of the layers, by number.
        nodes: Names of the executed graph's nodes, and of ops from which XLA made its instructions.
        place: Of a node.
        modules: For each module of XLA its instructions, and their parts; none of one of which nothing is known.
    """
    instructions = {
        module: {name: parts for name in found if (parts := _parts(names, split(name)))}
        for module, (found, split) in (modules or {}).items()
    }
    placed = ((node, place(node)) for node in nodes)
    whole = {
        node: (Share(one.phase, _name(names, one.layer), 1.0, one.recompute),)
        for node, one in placed
        if one.rule != "none"
    }
    return tsl.Places(whole, instructions).table()


def _parts(names: Sequence[str], parts: Iterable[tuple[Phase, int | None, float]]) -> Parts:
    return tuple(Share(phase, _name(names, layer), share) for phase, layer, share in parts)


def _name(names: Sequence[str], layer: int | None) -> str | None:
    if layer is None:
        return None
    return LOSS_NAME if layer == LOSS else names[layer]
