"""Scale requests: a clique or scaling group below its minimum would be a breach for ever, so it is refused at the door.

A PodCliqueSet may go to 0: then there is nothing that could be breached.
"""

from __future__ import annotations

from grove.admission.findings import ADMITTED, Verdict, invalid


def check(what: str, replicas: int, minimum: int) -> Verdict:
    """Whether this kind of thing may be scaled to so many replicas."""
    if replicas >= minimum:
        return ADMITTED
    error = invalid(
        "spec.replicas",
        replicas,
        f"a {what} must not have fewer replicas than its minAvailable {minimum}",
        f"scale to {minimum} or more; to stop everything scale the PodCliqueSet to 0",
    )
    return Verdict((error,))
