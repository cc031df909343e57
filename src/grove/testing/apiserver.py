"""The API server: HTTP requests in, answers and watches out, with admission, access control and a log around the verbs.

It keeps everything in memory and knows no kind by name beyond the built-in table; custom kinds come from CRD objects,
given to `define` or posted by a client. `transport(...)` gives a client's end for one identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from grove.runtime.transport import HttpRequest, HttpResponse
from grove.testing import discovery, failures, rbac
from grove.testing.admission import Handler, Webhook, webhooks_from_configuration
from grove.testing.deletion import Deletions
from grove.testing.failures import ApiError
from grove.testing.garbage import GarbageCollector
from grove.testing.kinds import Resource
from grove.testing.memorytransport import MemoryTransport
from grove.testing.namespaces import NamespaceController
from grove.testing.objects import JsonObject
from grove.testing.ownership import Writer, of_new
from grove.testing.reads import Reads
from grove.testing.requests import ApiRequest, Identity, RequestLog, target_of
from grove.testing.simloop import SimClock
from grove.testing.state import Clock, State
from grove.testing.storage import Change, Storage, Table
from grove.testing.verbs import Verbs, decode_body
from grove.testing.watch import Watch

_JSON = {"content-type": "application/json"}
_DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
_FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_WATCH_SECONDS = 1800.0
_PLAIN_ANSWERS = {"/healthz": b"ok", "/livez": b"ok", "/readyz": b"ok"}


class ApiServer:
    """One server with its own storage. Use it inside a running event loop."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        seed: int = 0,
        controller_delay: float = 0.01,
        bookmark_interval: float = 60.0,
        show_managed_fields: bool = False,
    ) -> None:
        self.clock: Clock = clock or SimClock()
        self.log = RequestLog()
        self._state = State(self.clock, seed)
        self._reads = Reads(self._state, show_managed_fields=show_managed_fields)
        self._deletions = Deletions(self._state)
        self._verbs = Verbs(self._state, self._reads, self._deletions)
        self._bookmark_interval = bookmark_interval
        self._watches: dict[Watch, None] = {}
        GarbageCollector(self._state, self._deletions, controller_delay)
        NamespaceController(self._state, self._deletions, controller_delay)
        self._state.storage.listeners.append(self._on_change)
        for name in _FIRST_NAMESPACES:
            self._create_namespace(name)
        self.compact()

    @property
    def storage(self) -> Storage:
        return self._state.storage

    @property
    def state(self) -> State:
        return self._state

    def transport(
        self,
        user: str = "kubernetes-admin",
        *,
        groups: Sequence[str] = ("system:authenticated",),
        rules: Iterable[JsonObject] | None = None,
        namespaced_rules: Mapping[str, Sequence[JsonObject]] | None = None,
        agent: str = "in-memory-client",
    ) -> MemoryTransport:
        """A client's end. With `rules` (PolicyRules of ClusterRoles) only what they allow is answered, and in single
        namespaces what `namespaced_rules` (PolicyRules of Roles, by namespace) add."""
        allowed = None if rules is None else tuple(rules)
        identity = Identity(user, tuple(groups), allowed, agent, namespaced_rules or {})
        return MemoryTransport(self, identity)

    def define(self, crd: JsonObject) -> None:
        """Stores a CustomResourceDefinition and serves its kinds."""
        resource = self._resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        self._seed_object(resource, crd)

    def add_webhook(self, webhook: Webhook) -> None:
        self._state.admission.add(webhook)

    def remove_webhook(self, name: str) -> None:
        self._state.admission.remove(name)

    def add_webhook_configuration(self, configuration: JsonObject, handlers: Mapping[str, Handler]) -> None:
        """Puts the webhooks of a configuration in force; `handlers` are found by the path in its clientConfig."""
        for webhook in webhooks_from_configuration(configuration, handlers):
            self._state.admission.add(webhook)

    def objects(self, api_version: str, kind: str, namespace: str = "") -> list[JsonObject]:
        """The stored objects of a kind, to look at in tests; not to be changed."""
        resource = self._resource(api_version, kind)
        return [stored.obj for stored in self.storage.table(resource.group_resource).sorted(namespace)]

    def object(self, api_version: str, kind: str, name: str, namespace: str = "") -> JsonObject | None:
        resource = self._resource(api_version, kind)
        stored = self.storage.table(resource.group_resource).objects.get((namespace, name))
        return stored.obj if stored is not None else None

    def compact(self, before: int | None = None) -> None:
        """Forgets history: watches from before it get 410, and pages of older lists expire."""
        self.storage.compact(before)
        self._reads.forget_pages()

    def drop_watches(self) -> None:
        """Ends every open watch, as a restarting server does."""
        for watch in list(self._watches):
            watch.close()

    async def handle(self, http: HttpRequest, identity: Identity) -> HttpResponse:
        """Answers one request; a watch is answered whole, when it has ended."""
        plain = _PLAIN_ANSWERS.get(http.path)
        if plain is not None:
            return HttpResponse(200, {"content-type": "text/plain"}, plain)
        try:
            if http.method == "GET" and _is_discovery(http.path):
                document = discovery.document(http.path, self._state.registry)
                return HttpResponse(200, _JSON, msgspec.json.encode(document))
            request = self._decoded(http, identity)
        except ApiError as failure:
            return _refusal(failure)
        try:
            if request.verb == "watch":
                return await self._watched_to_the_end(http, identity)
            rbac.authorize(request)
            answer = await self._verbs.perform(request)
        except ApiError as failure:
            self.log.add(request, failure.code)
            return _refusal(failure)
        self.log.add(request, answer.code)
        return HttpResponse(answer.code, _JSON, answer.body)

    async def _watched_to_the_end(self, http: HttpRequest, identity: Identity) -> HttpResponse:
        watch = self.open_watch(http, identity)
        try:
            return HttpResponse(200, _JSON, b"".join([chunk async for chunk in watch.chunks()]))
        finally:
            self.close_watch(watch)

    def open_watch(self, http: HttpRequest, identity: Identity) -> Watch:
        """Starts a watch; raises ApiError where the server refuses it."""
        request = self._decoded(http, identity)
        if request.verb != "watch":
            raise failures.bad_request("not a watch")
        try:
            rbac.authorize(request)
            watch = self._reads.watch(request)
        except ApiError as failure:
            self.log.add(request, failure.code)
            raise
        self.log.add(request, 200)
        self._watches[watch] = None
        watch.keep_bookmarks(self._bookmark_interval, lambda: self.storage.version)
        watch.end_after(float(request.query.get("timeoutSeconds") or _WATCH_SECONDS))
        return watch

    def close_watch(self, watch: Watch) -> None:
        watch.close()
        self._watches.pop(watch, None)

    def _decoded(self, http: HttpRequest, identity: Identity) -> ApiRequest:
        target = target_of(http.path, self._state.registry)
        query = dict(http.query)
        headers = {name.lower(): value for name, value in http.headers.items()}
        content_type = headers.get("content-type", "").partition(";")[0].strip()
        if "user-agent" in headers:
            identity = replace(identity, agent=headers["user-agent"])
        body = decode_body(http.body, content_type)
        verb = _verb(http.method, query, named=bool(target.name))
        return ApiRequest(verb, target, identity, query, content_type, body)

    def _resource(self, api_version: str, kind: str) -> Resource:
        resource = self._state.registry.of_kind(api_version, kind)
        if resource is None:
            raise LookupError(f"{api_version} {kind} is not served")
        return resource

    def _create_namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self._seed_object(self._resource("v1", "Namespace"), body)

    def _seed_object(self, resource: Resource, obj: JsonObject) -> None:
        """Puts an object in place without a request."""
        stamp = self._state.timestamp()
        meta = {**obj["metadata"], "uid": self._state.identifiers.uid(), "creationTimestamp": stamp}
        if resource.counts_generation:
            meta["generation"] = 1
        prepared = self._state.strategy(resource).prepared_for_create({**obj, "metadata": meta})
        writer = Writer("kube-apiserver", "Update", "", resource.api_version)
        owners = of_new(writer, prepared, resource.merge_type, stamp)
        self.storage.put(self.storage.table(resource.group_resource), prepared, owners)

    def _on_change(self, table: Table, change: Change) -> None:
        if table.group_resource != _DEFINITIONS:
            return
        crd = change.stored.obj
        if change.kind != "DELETED":
            if change.previous is None or change.previous.obj["spec"] != crd["spec"]:
                self._state.define(crd)
                self._register(crd["spec"]["group"])
            return
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        instances = self.storage.table((group, plural))
        for stored in instances.sorted():
            self.storage.remove(instances, stored)
        self._state.registry.remove(group, plural)
        self._register(group)

    def _register(self, group: str) -> None:
        """An APIService for each custom version that is served, and for no other, as the API server keeps them."""
        resource = self._resource("apiregistration.k8s.io/v1", "APIService")
        table = self.storage.table(resource.group_resource)
        served = {f"{version}.{group}": version for version in self._state.registry.groups().get(group, ())}
        standing = {stored.obj["metadata"]["name"]: stored for stored in table.sorted()}
        for name, stored in standing.items():
            if stored.obj["spec"]["group"] == group and name not in served:
                self.storage.remove(table, stored)
        for name in served.keys() - standing.keys():
            self._seed_object(resource, _api_service(name, group, served[name]))


def _api_service(name: str, group: str, version: str) -> JsonObject:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name, "labels": {"kube-aggregator.kubernetes.io/automanaged": "true"}},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100},
    }


def _verb(method: str, query: Mapping[str, str], *, named: bool) -> str:
    match method:
        case "GET":
            if query.get("watch") in ("true", "1"):
                return "watch"
            return "get" if named else "list"
        case "POST":
            return "create"
        case "PUT" if named:
            return "update"
        case "PATCH" if named:
            return "patch"
        case "DELETE":
            return "delete" if named else "deletecollection"
        case _:
            raise failures.method_not_allowed()


def _is_discovery(path: str) -> bool:
    parts = path.strip("/").split("/")
    return parts == ["version"] or (parts[0] == "api" and len(parts) < 3) or (parts[0] == "apis" and len(parts) < 4)


def _refusal(failure: ApiError) -> HttpResponse:
    return HttpResponse(failure.code, {**_JSON, **failure.headers}, msgspec.json.encode(failure.status()))
