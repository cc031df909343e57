"""Kubernetes' own scheduler. Without its gang plugin it places pods one by one, so our gate holds a gang back until all
of its pods exist; that is all it can be given without the Workload API.
"""

from __future__ import annotations

NAME = "default-scheduler"
