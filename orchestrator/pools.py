"""The model pools of this worker: which have an engine loaded, and why others have none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from orchestrator.prompt.engine import PromptEngine
from orchestrator.prompt.engine_manifest import EngineFolderError, Origin
from orchestrator.routing import ModelPool

LoadEngine = Callable[[Path], PromptEngine]


class Pools:
    """Pools by name. An engine that two pools share is loaded once."""

    def __init__(self, engine_dirs: Mapping[str, Path], load: LoadEngine) -> None:
        self._engine_dirs = dict(engine_dirs)
        self._load = load
        self._engines: dict[str, PromptEngine] = {}
        self.ready: Mapping[str, ModelPool] = MappingProxyType({})
        self.missing: Mapping[str, str] = MappingProxyType(
            dict.fromkeys(self._engine_dirs, "its engine is being loaded")
        )

    def load_missing(self) -> None:
        """Loads what has no engine yet; afterwards `missing` says why any still has none."""
        missing: dict[str, str] = {}
        loaded: dict[Path, PromptEngine | str] = {}
        for name, engine_dir in self._engine_dirs.items():
            if name in self._engines:
                loaded[engine_dir] = self._engines[name]
        for name, engine_dir in self._engine_dirs.items():
            if engine_dir not in loaded:
                loaded[engine_dir] = self._load_one(engine_dir)
            engine = loaded[engine_dir]
            if isinstance(engine, str):
                missing[name] = engine
            else:
                self._engines[name] = engine
        self.ready = MappingProxyType(
            {name: _as_pool(name, engine) for name, engine in self._engines.items()}
        )
        self.missing = MappingProxyType(missing)

    def engine(self, name: str) -> PromptEngine:
        """The engine of a pool in `ready`."""
        return self._engines[name]

    def _load_one(self, engine_dir: Path) -> PromptEngine | str:
        try:
            return self._load(engine_dir)
        except EngineFolderError as error:
            return str(error)


def _as_pool(name: str, engine: PromptEngine) -> ModelPool:
    manifest = engine.manifest
    return ModelPool(name, manifest.engine_digest, unevaluated=manifest.origin is Origin.LOCAL)
