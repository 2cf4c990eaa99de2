"""On PYTHONPATH of a server process, this puts the fake session in place of the engine."""

import sys
import types
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from support.fake_session import FakeSession

engine = types.ModuleType("indexgrep.search")
engine.Session = FakeSession  # type: ignore[attr-defined]
sys.modules["indexgrep.search"] = engine
