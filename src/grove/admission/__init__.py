"""What may be written: defaults, rules and ownership. One file per rule family; no I/O, no clock."""

from grove.admission.context import Context, Topology
from grove.admission.defaulting import default
from grove.admission.findings import FieldError, Verdict
from grove.admission.validation import validate

__all__ = ["Context", "FieldError", "Topology", "Verdict", "default", "validate"]
