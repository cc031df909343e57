"""What a field says of itself beyond its type: the text of `kubectl explain` and the keywords the API server checks.

The keywords never reach the decoder: an object that is already stored is read as it is, whatever rules came later.
"""

from __future__ import annotations

from typing import Any

import msgspec

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DURATION = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"
PERCENT = r"^[0-9]{1,9}%$"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
OBJECT_NAME = rf"^{_SUBDOMAIN}$"
OBJECT_NAME_LENGTH = 253
QUALIFIED_NAME = rf"^({_SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
QUALIFIED_NAME_LENGTH = 253 + 1 + 63

PATTERN_WORDS = {
    DNS_LABEL: "must be lower case letters, digits and '-', beginning and ending with a letter or digit",
    DURATION: "must be a duration such as 30s, 15m or 4h",
    PERCENT: "must be a number or a percentage such as 25%",
    OBJECT_NAME: "must be the name of an object: lower case letters, digits, '-' and '.'",
    QUALIFIED_NAME: "must be a label key such as topology.kubernetes.io/rack",
}

# Bounds that make the cost of the CRDs' rules calculable; far above what one workload needs.
MAX_CLIQUES = 256
MAX_SCALING_GROUPS = 64


def doc(text: str, *, required: bool = False, **keywords: Any) -> msgspec.Meta:
    """A field's description and its schema keywords; `required` for fields that Python gives a default anyway."""
    return msgspec.Meta(description=text, extra_json_schema=keywords or None, extra={"required": required})


def keyed_by(*names: str) -> dict[str, Any]:
    """A list whose items are told apart by these fields, so that appliers can own single items."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(names)}


def distinct() -> dict[str, Any]:
    """A list of plain values without repetition, in which order means nothing."""
    return {"x-kubernetes-list-type": "set"}


def atomic() -> dict[str, Any]:
    """A list that is replaced as a whole."""
    return {"x-kubernetes-list-type": "atomic"}
