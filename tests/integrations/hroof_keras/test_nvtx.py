"""Steps, phases, layers and nodes of Keras programs as an NVTX tool hears them, without a GPU.

What TensorFlow emits itself needs the full wheel, which ``nox -s tensorflow`` installs; ``tensorflow-cpu`` has no NVTX.
"""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")
pytest.importorskip("nvtx")

from hroof.collect import tsl
from hroof.profile import Profile
from hroof.readers import Ranges
from hroof.readers.places import Place, place
from hroof.units import Phase
from tests.recorder import recorder

if TYPE_CHECKING:
    from tests.recorder.recorder import Recording

BATCHES, BATCH = 6, 4

PROGRAM = """
import warnings
import keras, numpy as np, tensorflow as tf, hroof
from hroof_keras.tsl import keep_thunks_apart
from launches import launch

assert keep_thunks_apart() == ""  # XLA would end the process over an option that it does not have

class Look(keras.layers.Layer):
    '''A stand-in for a kernel, launched by whichever thread runs the node.'''
    def call(self, x):
        def look(value):
            launch(self.name)
            return value
        seen = tf.ensure_shape(tf.numpy_function(look, [x], tf.float32), x.shape)
        return x + 0 * tf.stop_gradient(seen)

keras.utils.set_random_seed(0)
dense = keras.layers.Dense
inner = [dense(5, activation="relu", name="fc1"), *LOOK, dense(3, name="fc2")]
net = keras.Sequential([keras.Input((7,)), *inner], name="net")
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
net.compile(loss=loss, optimizer="adam", **OPTIONS)
x = np.random.default_rng(0).standard_normal((BATCHES * BATCH, 7)).astype("float32")
y = np.arange(BATCHES * BATCH) % 3
with hroof.region("train", skip=2, steps=STEPS, show=False) as run:
    net.fit(x, y, batch_size=BATCH, verbose=0, **FIT)
"""

Watch = Callable[..., "Heard"]


class Heard:
    """What a tool heard of a program, and what the program left."""

    def __init__(self, recording: Recording, run: dict[str, Any]) -> None:
        self.recording = recording
        self.run = run
        self.steps = [
            span
            for span in recorder.spans(recording.of("start", "end"))
            if str(span.message).startswith("S")
        ]

    def names(self) -> list[str]:
        """Names of the steps that had a range."""
        return [self.run["nvtx"][step.message]["name"] for step in self.steps]

    def looks(self) -> list[tuple[Place, bool]]:
        """Places of the stand-ins for kernels, and whether the thread of the program launched them."""
        return [
            (self._place(event.thread, event.time), event.thread == self.steps[0].thread)
            for event in self.recording.of("mark", domain="launches")
        ]

    def nodes(self) -> Iterator[tuple[str, Place]]:
        """The ranges of TensorFlow's own within steps, as if each launched a kernel."""
        for event in self.recording.of("push", domain=tsl.DOMAIN):
            found = self._place(event.thread, event.time)
            if found.step is not None:
                yield str(event.message), found

    def _place(self, thread: int, time: int) -> Place:
        events = self.recording.events
        if not hasattr(self, "_stacks"):
            self._stacks, self._spans = recorder.stacks(events), recorder.spans(events)
        pushed = tuple(
            (str(domain), str(one.message))
            for (_, owner, domain), ranges in self._stacks.items()
            if owner == thread
            for one in ranges
            if one.holds(time)
        )
        started = tuple(
            (str(span.domain), str(span.message)) for span in self._spans if span.holds(time)
        )
        table = self.run.get("places")
        places = tsl.read(table) if table else None
        return place(Ranges(pushed, started), self.run["nvtx"], places)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled recorder."""
    return recorder.build(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="module")
def watch(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Watch:
    """Run the program under the recorder, each kind of it once; everything must be balanced."""
    known: dict[str, Heard] = {}

    def watching(**what: Any) -> Heard:
        key = repr(sorted(what.items()))
        if key not in known:
            known[key] = started(tmp_path_factory.mktemp("watched"), **what)
        return known[key]

    def started(
        folder: Path,
        *,
        look: bool = True,
        steps: int = 2,
        fit: dict[str, Any] | None = None,
        **options: Any,
    ) -> Heard:
        values = {"OPTIONS": options, "FIT": fit or {}, "STEPS": steps, "BATCHES": BATCHES,
                  "BATCH": BATCH, "LOOK": "LOOK"}  # fmt: skip
        head = "\n".join(f"{name} = {value!r}" for name, value in values.items() if name != "LOOK")
        program = PROGRAM.replace("*LOOK, ", 'Look(name="look"), ' if look else "")
        out = folder / "out"
        variables = {"HROOF": "marks", "HROOF_OUT": str(out), "TF_CPP_MIN_LOG_LEVEL": "3"}
        recording = recorder.run(
            f"{head}\n{program}", library, folder / "heard", environment=variables
        )
        recorder.check_balanced(recording.events)
        return Heard(recording, Profile.load(out).run)

    return watching


# --- steps ----------------------------------------------------------------------------------------


def test_steps_of_a_graph_hold_what_other_threads_launch(watch: Watch) -> None:
    heard = watch(jit_compile=False)
    assert heard.names() == ["2", "3"]
    looks = heard.looks()
    assert [found.step for found, _ in looks] == [None, None, 2, 3, None, None]
    assert not any(own for _, own in looks)
    assert [row["number"] for row in heard.run["steps"]] == [2, 3]


def test_steps_of_a_compiled_program(watch: Watch) -> None:
    heard = watch(look=False, jit_compile=True)
    assert heard.names() == ["2", "3"]
    assert heard.run["facts"]["jit_compile"] is True


def test_several_steps_of_one_execution_have_one_range(watch: Watch) -> None:
    heard = watch(jit_compile=False, steps_per_execution=2, steps=2)
    assert heard.names() == ["2-3"]
    inside = [found for found, _ in heard.looks() if found.step is not None]
    assert [(found.step, found.steps) for found in inside] == [(2, 2)] * 2


def test_eager_steps_have_phases_and_layers(watch: Watch) -> None:
    heard = watch(run_eagerly=True)
    assert heard.names() == ["2", "3"]
    inside = [found for found, _ in heard.looks() if found.step is not None]
    assert [(found.phase, found.layer) for found in inside] == [(Phase.FORWARD, "look")] * 2
    spans = [heard.run["nvtx"][span.message]["name"] for span in recorder.spans(heard.recording.events)
             if str(span.message).startswith("P")]  # fmt: skip
    assert spans == ["forward", "loss", "backward", "optimizer"] * 2
    assert {row["name"] for row in heard.run["layers"]} >= {"net", "fc1", "look", "fc2"}
    assert any("only the phase is known" in text for text in heard.run["warnings"])


def test_validation_within_fit_is_no_step(watch: Watch) -> None:
    heard = watch(jit_compile=False, steps=4, fit={"epochs": 2, "validation_split": 1 / 3})
    assert heard.names() == ["2", "3", "4", "5"]
    counts = Counter(found.step for found, _ in heard.looks())
    assert {step: counts[step] for step in (2, 3, 4, 5)} == {2: 1, 3: 1, 4: 1, 5: 1}


# --- nodes ----------------------------------------------------------------------------------------


def is_full() -> bool:
    """Whether the wheel is the one whose TensorFlow emits ranges."""
    try:
        metadata.distribution("tensorflow")
    except metadata.PackageNotFoundError:
        return False
    return sys.platform == "linux" and platform.machine() == "x86_64"


full = pytest.mark.skipif(
    not is_full(), reason="needs the full tensorflow wheel: nox -s tensorflow"
)
IDLE = ("_Arg", "_Retval")
"""Types of nodes that only hand over what a function takes and gives; nothing is launched for them."""


@pytest.mark.skipif(is_full(), reason="the full tensorflow wheel emits ranges")
def test_without_ranges_of_nodes_one_sentence_says_so(watch: Watch) -> None:
    heard = watch(jit_compile=False)
    told = [text for text in heard.run["warnings"] if "tensorflow-cpu" in text]
    assert len(told) == 1
    assert told[0].startswith("Steps have ranges, but the nodes within them have none")
    assert list(heard.nodes()) == []
    assert tsl.read(heard.run["places"]).nodes


@full
def test_nodes_of_a_graph_have_their_layers_and_phases(
    watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = watch(look=False, jit_compile=False)
    assert not [text for text in heard.run["warnings"] if "nodes within them" in text]
    known = tsl.read(heard.run["places"])
    ranges = list(heard.nodes())
    nodes = [(message, found) for message, found in ranges if not message.endswith(IDLE)]
    unknown = [message for message, _ in nodes if not known.of(_running(message))]
    # The input pipeline runs ahead, as far as it likes.
    per_step = Counter(found.step for _, found in nodes if found.phase is not Phase.DATA)
    with capsys.disabled():
        print(
            f"\n{len(ranges)} ranges in two steps, {len(nodes)} of them of nodes that do something, of which "
            f"{len(unknown)} have no place; nodes of each step: {dict(per_step)}"
        )
    assert per_step[2] == per_step[3] > 100
    assert len(unknown) <= 0.01 * len(nodes), unknown
    served = Counter(
        (str(found.phase), found.layer) for message, found in nodes if message.endswith("MatMul")
    )
    assert served == {
        ("forward", "fc1"): 2,
        ("forward", "fc2"): 2,
        ("backward", "fc1"): 2,
        ("backward", "fc2"): 4,
    }
    assert {str(found.phase) for _, found in nodes} >= {"forward", "loss", "backward", "optimizer"}


def _running(message: str) -> tsl.Running:
    found = tsl.running([message])
    assert found is not None, message
    return found


@full
def test_a_kernel_is_launched_within_the_range_of_its_node(watch: Watch) -> None:
    heard = watch(jit_compile=False)
    inside = [found for found, own in heard.looks() if found.step is not None and not own]
    assert [(found.phase, found.layer, found.op) for found in inside] == [
        (Phase.FORWARD, "look", "PyFunc")
    ] * 2


@full
def test_outside_captured_steps_nodes_are_not_named(watch: Watch) -> None:
    heard = watch(look=False, jit_compile=False)
    first, last = heard.steps[0].begin, heard.steps[-1].end
    assert last is not None
    early = [
        event
        for event in heard.recording.of("push", domain=tsl.DOMAIN)
        if isinstance(tsl.parse(str(event.message)), tsl.Node)
        and not first - 50_000_000 <= event.time <= last + 50_000_000
    ]
    assert early == []
