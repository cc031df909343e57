"""A Kubernetes API server in memory, a cluster around it, faults to inject, and simulated time to run it all in.

`ApiServer` answers the real HTTP paths through `grove.runtime.transport.Transport`; `Cluster` adds a scheduler and
kubelets; `FaultyTransport` breaks things by a seed; `simulate` runs a coroutine while time jumps from timer to timer.
"""

from grove.testing.apiserver import ApiServer
from grove.testing.simloop import SimClock, simulate

__all__ = ["ApiServer", "SimClock", "simulate"]
