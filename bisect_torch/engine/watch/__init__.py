"""A file run again on every save, on workers that stay warm: :class:`Watch` runs it, :class:`WatchState` is shown."""

from bisect_torch.engine.watch.loop import Watch
from bisect_torch.engine.watch.state import WatchState

__all__ = ["Watch", "WatchState"]
