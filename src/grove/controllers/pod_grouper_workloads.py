"""Which Workload a pod claims and what that says, whichever version of the API the cluster serves.

Both versions are watched; the one that is not served stays empty and is looked for again, so that an upgrade of the
cluster needs no restart here. Where neither is served, pods belong to their owners alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from grove.api.core import Pod
from grove.api.kinds import PODS
from grove.controllers.stores import Stores
from grove.plan.actions import Why
from grove.podgrouper import workload_v1alpha1 as v1alpha1
from grove.podgrouper import workload_v1alpha2 as v1alpha2
from grove.podgrouper.workload import Claim, Terms
from grove.runtime.objects import HasMetadata
from grove.runtime.resource import namespaced_name

BY_SOURCE = "workload source"


class Workloads:
    """The Workload layer's view of the cluster. `wake` gets the key of every pod whose Workload says something new.

    `unique_names` makes the names of PodGroups differ between namespaces: KAI before 0.14 takes equal names for one.
    """

    def __init__(self, stores: Stores, wake: Callable[[str], None], *, unique_names: bool = False) -> None:
        self._unique_names = unique_names
        self._pods = stores.add(PODS)
        self._workloads = stores.add(v1alpha1.WORKLOADS)
        self._groups = stores.add(v1alpha2.NATIVE_POD_GROUPS)
        self._templates = stores.add(v1alpha2.WORKLOAD_TEMPLATES)
        self._wake = wake
        self._pods.add_index(BY_SOURCE, _source)
        self._groups.add_index(BY_SOURCE, _origin)
        self._workloads.subscribe(self._source_changed)
        self._groups.subscribe(self._source_changed)
        self._templates.subscribe(self._template_changed)
        self._workloads.when_served(self._api_arrived)
        self._groups.when_served(self._api_arrived)

    def claim(self, pod: Pod) -> Claim | None:
        """The claim of a pod, as far as the cluster serves what it refers to."""
        found = v1alpha1.claim(pod) if self._workloads.served else None
        if found is None and self._groups.served:
            found = v1alpha2.claim(pod)
        return found.tagged() if found and self._unique_names else found

    def terms(self, claim: Claim) -> Terms | Why:
        if claim.workload:
            return v1alpha1.terms(claim, self._workloads.get(claim.source))
        group = self._groups.get(claim.source)
        namespace = claim.source.partition("/")[0]
        workload = self._templates.get(f"{namespace}/{group.workload_name}") if group else None
        return v1alpha2.terms(claim, group, workload)

    def _source_changed(self, old: HasMetadata | None, new: HasMetadata | None) -> None:
        source = new or old
        assert source is not None
        for pod in self._pods.by_index(BY_SOURCE, namespaced_name(source)):
            self._wake(namespaced_name(pod))

    def _api_arrived(self) -> None:
        """Pods that were grouped by their owners, since nothing else was served, have a say of their own now."""
        for pod in self._pods.all():
            if _source(pod):
                self._wake(namespaced_name(pod))

    def _template_changed(self, old: Any, new: Any) -> None:
        for group in self._groups.by_index(BY_SOURCE, namespaced_name(new or old)):
            self._source_changed(None, group)


def _source(pod: Pod) -> Iterable[str]:
    claim = v1alpha1.claim(pod) or v1alpha2.claim(pod)
    return (claim.source,) if claim else ()


def _origin(group: v1alpha2.NativePodGroup) -> Iterable[str]:
    return (f"{group.metadata.namespace}/{group.workload_name}",) if group.workload_name else ()
