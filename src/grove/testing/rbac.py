"""Role-based access: may this identity do this? By the rules of its ClusterRoles and of its Roles in a namespace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from grove.testing import failures
from grove.testing.objects import JsonObject
from grove.testing.requests import ApiRequest, Identity, Target

_BY_NAME = "metadata.name="


def authorize(request: ApiRequest) -> None:
    """Raises Forbidden, in the real server's words, unless one of the identity's rules allows the request."""
    demand(request.identity, request.verb, _narrowed(request))


def _narrowed(request: ApiRequest) -> Target:
    """A list or watch of one object, chosen by its name, needs the right to that object only."""
    target, selector = request.target, request.query.get("fieldSelector", "")
    if target.name or not selector.startswith(_BY_NAME) or "," in selector:
        return target
    return replace(target, name=selector.removeprefix(_BY_NAME))


def demand(identity: Identity, verb: str, target: Target) -> None:
    if identity.rules is None:
        return
    here = identity.namespaced_rules.get(target.namespace, ()) if target.namespace else ()
    if any(_allows(rule, verb, target) for rule in (*identity.rules, *here)):
        return
    resource = target.resource
    what = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    why = f'User "{identity.user}" cannot {verb} resource "{what}" in API group "{resource.group}" {where}'
    raise failures.forbidden(target.subject(), why)


def _allows(rule: JsonObject, verb: str, target: Target) -> bool:
    resource = target.resource
    named = rule.get("resourceNames") or ()
    return (
        _has(rule.get("verbs"), verb)
        and _has(rule.get("apiGroups"), resource.group)
        and _names_resource(rule.get("resources") or (), resource.plural, target.subresource)
        and (not named or target.name in named)
    )


def _has(values: Iterable[str] | None, wanted: str) -> bool:
    return values is not None and any(value in ("*", wanted) for value in values)


def _names_resource(patterns: Iterable[str], plural: str, subresource: str) -> bool:
    wanted = f"{plural}/{subresource}" if subresource else plural
    return any(pattern in ("*", wanted) or (subresource and pattern == f"*/{subresource}") for pattern in patterns)
