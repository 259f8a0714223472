"""What `scripts/drain` and `scripts/undrain` share: an interrupt says where things stand."""

import signal
import sys
from collections.abc import Callable
from types import FrameType

from scripts.stack.draining import standing
from scripts.stack.errors import StackError
from scripts.stack.layout import RunFolder, StackConfig
from scripts.stack.placement import Place, place_of
from scripts.stack.running import running_config
from scripts.stack.ticker import Ticker

Body = Callable[[StackConfig, RunFolder, Place, Ticker], str]


def run(folder: RunFolder, replica: str, body: Body) -> int:
    """Run `body` for one replica of the stack in `folder` and print what it returns.

    Raises `StackError` when nothing runs there; KeyboardInterrupt after telling the state.
    """
    config = running_config(folder)
    if config is None:
        raise StackError(f"Nothing runs from {folder.path}.", "Start a stack with scripts/up.")
    place, ticker = place_of(config, replica), Ticker()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        outcome = body(config, folder, place, ticker)
    except KeyboardInterrupt:
        ticker.close()
        print(standing(config, folder, place), file=sys.stderr)
        raise
    finally:
        ticker.close()
    print(outcome)
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
