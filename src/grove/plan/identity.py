"""The identity pods of an ordered start read other pods with. Made only when a clique starts after another.

A pod that names no service account gets the set's own; one that names its own keeps it, and that account is bound.
"""

from __future__ import annotations

from typing import Any

from grove.api import labels, names
from grove.api.core import Role, RoleBinding, ServiceAccount
from grove.api.kinds import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from grove.api.meta import ObjectMeta
from grove.api.pod_clique_set import PodCliqueSet
from grove.api.reasons import Reason
from grove.plan.actions import Action, Apply, Why
from grove.plan.matching import covers, metadata_covers
from grove.plan.revision import set_owner
from grove.plan.start_order import parent_cliques
from grove.plan.worlds import SetWorld
from grove.runtime.resource import Resource

_RULES = [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list", "watch"]}]


def identity_actions(world: SetWorld) -> list[Action]:
    """Writes that make or correct service account, role and binding."""
    accounts = _accounts(world.owner)
    if not accounts:
        return []
    set_name = world.owner.metadata.name
    role = {"apiGroup": ROLES.group, "kind": ROLES.kind, "name": names.role(set_name)}
    subjects = [
        {"kind": "ServiceAccount", "name": account, "namespace": world.owner.metadata.namespace} for account in accounts
    ]
    found: list[Action] = []
    if names.service_account(set_name) in accounts:
        body = _body(world.owner, SERVICE_ACCOUNTS, names.service_account(set_name), labels.COMPONENT_SERVICE_ACCOUNT)
        found += _ensure(SERVICE_ACCOUNTS, body, _meta(world.service_account), {}, {})
    body = _body(world.owner, ROLES, names.role(set_name), labels.COMPONENT_ROLE)
    seen_rules = {"rules": world.role.rules} if world.role else {}
    found += _ensure(ROLES, body, _meta(world.role), {"rules": _RULES}, seen_rules)
    body = _body(world.owner, ROLE_BINDINGS, names.role(set_name), labels.COMPONENT_ROLE_BINDING)
    bound = world.role_binding
    seen = {"roleRef": bound.role_ref, "subjects": bound.subjects} if bound else {}
    wanted = {"roleRef": role, "subjects": subjects}
    found += _ensure(ROLE_BINDINGS, body, _meta(bound), wanted, seen)
    return found


def _meta(seen: ServiceAccount | Role | RoleBinding | None) -> ObjectMeta | None:
    return seen.metadata if seen else None


def _accounts(owner: PodCliqueSet) -> list[str]:
    """The service accounts of cliques that start after another, each once."""
    template = owner.spec.template
    default = names.service_account(owner.metadata.name)
    waiting = [clique for clique in template.cliques if parent_cliques(template, clique.name)]
    return list(dict.fromkeys(clique.spec.pod_spec.get("serviceAccountName") or default for clique in waiting))


def _body(owner: PodCliqueSet, resource: Resource[Any], name: str, component: str) -> dict[str, Any]:
    set_name = owner.metadata.name
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": {
                **labels.managed(set_name),
                labels.NAME: name.replace(":", "-"),
                labels.COMPONENT: component,
            },
            "ownerReferences": [set_owner(owner)],
        },
    }


def _ensure(
    resource: Resource[Any],
    body: dict[str, Any],
    seen: ObjectMeta | None,
    content: dict[str, Any],
    seen_content: dict[str, Any],
) -> list[Action]:
    name = body["metadata"]["name"]
    if seen is None:
        why = Why(Reason.CHILD_MISSING, f"{resource.kind} {name} does not exist")
    elif metadata_covers(seen, body["metadata"]) and covers(seen_content, content):
        return []
    else:
        why = Why(Reason.CHILD_CHANGED, f"{resource.kind} {name} differs from what is asked for")
    return [Apply(resource, {**body, **content}, why, force=seen is not None)]
