"""What a kind adds to the common path of a write: defaults, checks, and how it is deleted.

Most kinds use `Strategy` as it is. Custom resources are judged by their schema (`CustomStrategy`); pods have a file of
their own.
"""

from __future__ import annotations

from grove.testing import failures, schema
from grove.testing.failures import Cause
from grove.testing.kinds import Resource
from grove.testing.objects import JsonObject, is_dns_label, is_dns_subdomain, metadata

_RFC1123_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_LABEL_NAMED_KINDS = ("Namespace", "Service")
_FREELY_NAMED_GROUPS = ("rbac.authorization.k8s.io",)


class Strategy:
    """Kinds that are stored as they come."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource

    def prepared_for_create(self, obj: JsonObject) -> JsonObject:
        """What a new object looks like before admission: unknown fields dropped, defaults filled in."""
        return self.defaulted(obj)

    def defaulted(self, obj: JsonObject) -> JsonObject:
        return obj

    def cleaned(self, obj: JsonObject) -> JsonObject:
        """The object without fields the kind does not have."""
        return obj

    def unknown_fields(self, obj: JsonObject) -> list[str]:
        """Paths of fields the kind does not have."""
        return []

    def violations(self, obj: JsonObject) -> list[Cause]:
        return []

    def update_violations(self, old: JsonObject, new: JsonObject) -> list[Cause]:
        return self.violations(new)

    def spec_changed(self, old: JsonObject, new: JsonObject) -> bool:
        """Whether an update counts as a new generation."""
        return old.get("spec") != new.get("spec")

    def grace_period(self, obj: JsonObject, requested: int | None) -> int | None:
        """Seconds until the object goes after a delete; None for kinds that go at once."""
        return None

    def name_violations(self, obj: JsonObject) -> list[Cause]:
        name = metadata(obj).get("name", "")
        resource = self.resource
        if not name:
            return [Cause("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")]
        if resource.group in _FREELY_NAMED_GROUPS:
            return []
        valid = is_dns_label(name) if resource.kind in _LABEL_NAMED_KINDS else is_dns_subdomain(name)
        if valid:
            return []
        return [Cause("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {_RFC1123_SUBDOMAIN}')]


class CustomStrategy(Strategy):
    """Custom resources: pruned, defaulted and validated by the schema of the requested version."""

    def cleaned(self, obj: JsonObject) -> JsonObject:
        if self.resource.schema is None:
            return obj
        result = schema.pruned(obj, self.resource.schema, root=True)
        return result if isinstance(result, dict) else obj

    def unknown_fields(self, obj: JsonObject) -> list[str]:
        return schema.unknown(obj, self.resource.schema, root=True) if self.resource.schema is not None else []

    def defaulted(self, obj: JsonObject) -> JsonObject:
        if self.resource.schema is None:
            return obj
        result = schema.defaulted(obj, self.resource.schema)
        return result if isinstance(result, dict) else obj

    def prepared_for_create(self, obj: JsonObject) -> JsonObject:
        return self.defaulted(self.cleaned(obj))

    def violations(self, obj: JsonObject) -> list[Cause]:
        return schema.violations(obj, self.resource.schema) if self.resource.schema is not None else []

    def spec_changed(self, old: JsonObject, new: JsonObject) -> bool:
        aside = {"metadata", "status"} if self.resource.has_status else {"metadata"}
        fields = (old.keys() | new.keys()) - aside
        return any(old.get(field) != new.get(field) for field in fields)


class NamespaceStrategy(Strategy):
    """A namespace carries the finalizer that lets its content go first."""

    def prepared_for_create(self, obj: JsonObject) -> JsonObject:
        labels = {**metadata(obj).get("labels", {}), "kubernetes.io/metadata.name": metadata(obj).get("name", "")}
        return {
            **obj,
            "metadata": {**metadata(obj), "labels": labels},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }


class DefinitionStrategy(Strategy):
    """CustomResourceDefinitions are accepted at once: there is no API to wait for."""

    def prepared_for_create(self, obj: JsonObject) -> JsonObject:
        conditions = [
            {"type": kind, "status": "True", "reason": reason, "message": message}
            for kind, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ]
        spec = obj.get("spec") or {}
        stored = [version["name"] for version in spec.get("versions", ()) if version.get("storage")]
        return {
            **obj,
            "status": {"conditions": conditions, "acceptedNames": spec.get("names", {}), "storedVersions": stored},
        }

    def violations(self, obj: JsonObject) -> list[Cause]:
        spec = obj.get("spec") or {}
        wanted = f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}"
        if metadata(obj).get("name") == wanted:
            return []
        message = f'Invalid value: "{metadata(obj).get("name")}": must be spec.names.plural+"."+spec.group'
        return [Cause("FieldValueInvalid", "metadata.name", message)]


def refuse(resource: Resource, obj: JsonObject, causes: list[Cause]) -> None:
    if causes:
        raise failures.invalid(resource.subject(metadata(obj).get("name", "")), causes)
