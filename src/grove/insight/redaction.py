"""Objects without what may be secret, for support bundles.

Values of environment variables go, whatever they are; so do whole copies of the object in annotations, and values in
command lines that look like credentials. What remains is still enough to see what an object asks for.
"""

from __future__ import annotations

import re
from typing import Any

REDACTED = "(redacted)"
_COPIES = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_CREDENTIAL = re.compile(r"(?i)((?:token|passw(?:or)?d|secret|credential|api[-_]?key)[^=\s]*[=:\s]\s*)\S+")
_COMMANDS = frozenset({"args", "command"})


def redacted(value: Any, key: str = "") -> Any:
    """The value, with secrets replaced at any depth."""
    if isinstance(value, dict):
        return {k: redacted(v, k) for k, v in value.items() if k != "managedFields" and k not in _COPIES}
    if isinstance(value, list):
        if key == "env":
            return [_variable(item) for item in value]
        return [redacted(item, key) for item in value]
    if isinstance(value, str) and key in _COMMANDS:
        return _CREDENTIAL.sub(rf"\1{REDACTED}", value)
    return value


def _variable(item: Any) -> Any:
    """A variable by its name; where a value comes from may be told, since it is only a reference."""
    if isinstance(item, dict) and "value" in item:
        return {**item, "value": REDACTED}
    return item
