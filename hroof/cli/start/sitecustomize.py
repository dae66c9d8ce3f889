"""Start-up hook of ``hroof run``: waits for a framework, then lets hroof watch the program.

Python imports it before the program. It takes every trace of itself out of the environment, so that
child processes are not measured, and imports nothing of hroof before the framework is there.
"""

from __future__ import annotations

import os
import sys
from typing import Any

START_VARIABLE = "HROOF_START"
OUT_VARIABLE = "HROOF_OUT"
EVIDENCE = "start-{pid}.json"


def main() -> None:
    """Leave the environment as the user had it, and get ready to watch."""
    folder = os.path.dirname(os.path.abspath(__file__))
    _forget(folder)
    text = os.environ.pop(START_VARIABLE, None)
    if text is not None:
        try:
            _wait(text)
        except Exception as error:
            _say(f"the start-up hook failed ({error!r}); the program runs unmeasured.")
    _run_the_next(folder)


def _forget(folder: str) -> None:
    """Take this folder out of the module search path, here and for children."""
    sys.path[:] = [entry for entry in sys.path if not _is(entry, folder)]
    sys.path_importer_cache.pop(folder, None)
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = os.pathsep.join(entry for entry in entries if not _is(entry, folder))
    if kept:
        os.environ["PYTHONPATH"] = kept
    else:
        os.environ.pop("PYTHONPATH", None)


def _is(entry: str, folder: str) -> bool:
    return bool(entry) and os.path.abspath(entry) == folder


def _wait(text: str) -> None:
    import importlib.util
    import json

    settings = json.loads(text)
    if importlib.util.find_spec("hroof") is None:
        _note(problem="no hroof")
        _say(
            f"{sys.executable} has no hroof; the program runs unmeasured. "
            f"Install it there: {sys.executable} -m pip install hroof"
        )
        return
    _note(problem="")
    sys.meta_path.insert(0, _Finder(settings))


def _note(**facts: str) -> None:
    """Leave for ``hroof run`` what happened here."""
    import json

    folder = os.environ.get(OUT_VARIABLE)
    if folder:
        path = os.path.join(folder, EVIDENCE.format(pid=os.getpid()))
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"executable": sys.executable, "framework": "", **facts}, file)


class _Finder:
    """Finds the frameworks as the others do, and watches them being loaded.

    One framework may import another, and a library of the program one that the program does not use: each is watched,
    once the outermost is loaded.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._left = set(settings["frameworks"])
        self._loading: list[str] = []
        self._there: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """What the next finder finds, watched if it is a framework."""
        if name not in self._left:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    self._watch(name, spec.loader)
                    return spec
        return None

    def _watch(self, name: str, loader: Any) -> None:
        original = loader.exec_module

        def exec_module(module: Any) -> None:
            del loader.exec_module
            self._loading.append(name)
            try:
                original(module)
                self._loaded(name)
            finally:
                self._loading.remove(name)
            self._begin()

        loader.exec_module = exec_module  # on this one object; the class stays as it is

    def _loaded(self, name: str) -> None:
        """A framework is there; with the last one this finder goes."""
        self._left.discard(name)
        self._there.append(name)
        if not self._left and self in sys.meta_path:
            sys.meta_path.remove(self)

    def _begin(self) -> None:
        """From now on hroof watches."""
        if self._loading:
            return
        found, self._there = self._there, []
        for name in found:
            try:
                from hroof.cli.inside import watch

                _note(framework=name, problem="")
                watch(name, self._settings)
            except Exception as error:
                _say(f"watching the program failed ({error!r}); it goes on unmeasured.")


def _say(text: str) -> None:
    if sys.stderr is None:  # then print would choose standard output
        return
    try:
        print(f"hroof: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return  # it is closed: there is nobody to tell


def _run_the_next(folder: str) -> None:
    """The user's own sitecustomize, which this one hides."""
    import importlib.machinery
    import importlib.util

    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None or _is(os.path.dirname(spec.origin or ""), folder):
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    main()
