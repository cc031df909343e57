"""What can go wrong with a local cluster, said in words a person can act on.

Every failure that is not a bug of ours is a LocalClusterError; the command line prints its message without a trace.
"""

from __future__ import annotations


class LocalClusterError(Exception):
    """The local cluster cannot do what was asked; the message says why and what to try."""


class BuildError(LocalClusterError):
    """The toolchain is missing or a build failed; carries the end of the build's output."""


class ComponentError(LocalClusterError):
    """A component died or never became ready; carries its exit status and the end of its log."""


class NotRunningError(LocalClusterError):
    """The cluster asked about is not running."""
