"""Where threads of ours may run inside an engine that pins its own."""

import os


def free_from_pinning() -> None:
    """Let this thread run wherever the process may.

    An engine that pins its main thread to one core would have every thread born of it share that
    core. The cores of all its threads together are what it was given.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    cores: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            cores |= os.sched_getaffinity(int(thread))
        except ProcessLookupError:
            continue
    os.sched_setaffinity(0, cores)
