"""Names, labels, bodies, injection and ownership of multi-node NVLink domains."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from grove.admission import Context, default, validate
from grove.api import labels
from grove.api.devices import ComputeDomain, DeviceClaim
from grove.api.meta import ObjectMeta, OwnerReference
from grove.api.pod_clique import PodClique, PodCliqueSpec
from grove.api.pod_clique_set import PodCliqueSet
from grove.api.pod_gang import PodGang, PodGangSpec, PodGroup
from grove.plan import mnnvl
from grove.plan.actions import Create, Patch, Plan
from grove.plan.children import pod_clique, pod_clique_in_step, position_labels
from grove.plan.layout import layout
from grove.plan.matching import covers
from grove.plan.mnnvl import ClaimForm, Domain
from grove.plan.mnnvl_ownership import GangDomains, objection, plan_gang, wanted
from grove.plan.revision import of_template, owner_reference

Json = dict[str, Any]

DATA = Path(__file__).parents[2] / "data" / "mnnvl.yaml"
SETS = {document["metadata"]["name"]: document for document in yaml.safe_load_all(DATA.read_text())}
OWNER = owner_reference("grove.io/v1alpha1", "PodCliqueSet", "train", "uid-set")
PLACE = {
    labels.SHORT_SET: "train",
    labels.SHORT_REPLICA: "1",
    labels.SHORT_CLIQUE: "worker",
    labels.POD_GANG: "train-1",
}
MEMBER = PLACE | {
    labels.SHORT_GROUP: "pool",
    labels.SHORT_GROUP_REPLICA: "2",
    labels.POD_GANG: "train-1-pool-2",
}
ASKS = {labels.MNNVL_ENABLED: "true"}
GPU_CONTAINER: Json = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}


def domain(scope: str | None = None, place: Json = PLACE, **more: str) -> Domain:
    said = ASKS | ({labels.MNNVL_SCOPE: scope} if scope else {}) | more
    return mnnvl.domain_of("default", place, said)


class TestNames:
    @pytest.mark.parametrize(
        ("scope", "place", "stem", "gang"),
        [
            ("replica", PLACE, "train-1", "train-1"),
            (None, PLACE, "train-1", "train-1"),
            ("replica", MEMBER, "train-1", "train-1"),
            ("clique", PLACE, "train-1-worker", "train-1"),
            ("clique", MEMBER, "train-1-pool-2-worker", "train-1-pool-2"),
            ("scalingGroupReplica", MEMBER, "train-1-pool-2", "train-1-pool-2"),
            ("scalingGroupReplica", MEMBER | {labels.POD_GANG: "train-1"}, "train-1-pool-2", "train-1"),
        ],
    )
    def test_a_scope_names_domain_claim_and_gang(self, scope: str | None, place: Json, stem: str, gang: str) -> None:
        found = domain(scope, place)
        assert (found.name, found.claim, found.gang) == (f"{stem}-cd", f"{stem}-mnnvl-claim", gang)

    def test_labels_say_who_shares_the_domain(self) -> None:
        shared = {labels.SHORT_SET: "train", labels.SHORT_REPLICA: "1", labels.MNNVL_MANAGED: "true"}
        of_replica = domain("replica", MEMBER).labels
        assert covers(of_replica, shared)
        assert labels.SHORT_GROUP not in of_replica
        assert labels.SHORT_CLIQUE not in of_replica
        of_clique = domain("clique", MEMBER).labels
        assert covers(of_clique, shared | {labels.SHORT_CLIQUE: "worker", labels.SHORT_GROUP_REPLICA: "2"})
        of_group = domain("scalingGroupReplica", MEMBER).labels
        assert covers(of_group, shared | {labels.SHORT_GROUP: "pool", labels.SHORT_GROUP_REPLICA: "2"})
        assert labels.SHORT_CLIQUE not in of_group

    @pytest.mark.parametrize(
        ("scope", "place", "message"),
        [
            ("node", PLACE, "is 'node', not one of replica, clique, scalingGroupReplica"),
            ("scalingGroupReplica", PLACE, f"carries no label {labels.SHORT_GROUP}"),
            ("replica", {}, f"carries no label {labels.SHORT_SET}"),
            ("replica", PLACE | {labels.SHORT_REPLICA: "x"}, "must be a number"),
        ],
    )
    def test_what_cannot_be_placed_says_why(self, scope: str, place: Json, message: str) -> None:
        with pytest.raises(mnnvl.Unplaceable, match=message):
            domain(scope, place)


class TestBodies:
    def test_a_domain_is_as_large_as_its_users(self) -> None:
        body = mnnvl.domain_body(domain(), OWNER)
        assert body["spec"] == {"numNodes": 0}
        assert body["metadata"]["ownerReferences"] == [OWNER]
        assert (body["apiVersion"], body["kind"]) == ("resource.nvidia.com/v1alpha1", "ComputeDomain")

    def test_claims_select_their_domain_in_every_version(self) -> None:
        wish = {
            "deviceClassName": "compute-domain.nvidia.com",
            "selectors": [
                {"cel": {"expression": 'device.attributes["compute-domain.nvidia.com"].name == "train-1-cd"'}}
            ],
        }
        expected = {
            "v1": {"name": "mnnvl", "exactly": wish},
            "v1beta2": {"name": "mnnvl", "exactly": wish},
            "v1beta1": {"name": "mnnvl", **wish},
        }
        for version, request in expected.items():
            body = mnnvl.claim_body(domain(), ClaimForm(version), OWNER)
            assert (body["apiVersion"], body["kind"]) == (f"resource.k8s.io/{version}", "ResourceClaim")
            assert body["spec"] == {"devices": {"requests": [request]}}
            assert mnnvl.device_class_of(msgspec.convert(body, DeviceClaim)) == "compute-domain.nvidia.com"

    def test_a_claim_per_pod_comes_from_a_template(self) -> None:
        form = ClaimForm("v1", per_pod=True)
        body = mnnvl.claim_body(domain(**{labels.MNNVL_DEVICE_CLASS: "special"}), form, OWNER)
        assert body["kind"] == "ResourceClaimTemplate"
        assert body["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "special"
        assert mnnvl.device_class_of(msgspec.convert(body, DeviceClaim)) == "special"
        assert mnnvl.reference(domain(), form) == {
            "name": "mnnvl",
            "resourceClaimTemplateName": "train-1-mnnvl-claim",
        }


class TestInjection:
    entry = mnnvl.reference(domain(), ClaimForm())

    def test_every_container_with_gpus_uses_the_claim_and_no_other(self) -> None:
        pod_spec = {
            "initContainers": [
                {"name": "warm-up", "resources": {"requests": {"nvidia.com/gpu": "1"}}},
                {"name": "fetch"},
            ],
            "containers": [
                {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}, "claims": [{"name": "nic"}]}},
                {"name": "idle", "resources": {"limits": {"nvidia.com/gpu": "0", "cpu": 1}}},
            ],
            "resourceClaims": [{"name": "nic", "resourceClaimName": "nic"}],
        }
        before = copy.deepcopy(pod_spec)
        after = mnnvl.inject(pod_spec, self.entry)
        assert pod_spec == before
        assert after["resourceClaims"] == [
            {"name": "nic", "resourceClaimName": "nic"},
            {"name": "mnnvl", "resourceClaimName": "train-1-mnnvl-claim"},
        ]
        claims = {
            c["name"]: c.get("resources", {}).get("claims") for c in after["initContainers"] + after["containers"]
        }
        assert claims == {
            "warm-up": [{"name": "mnnvl"}],
            "fetch": None,
            "main": [{"name": "nic"}, {"name": "mnnvl"}],
            "idle": None,
        }

    def test_injecting_twice_changes_nothing(self) -> None:
        once = mnnvl.inject({"containers": [GPU_CONTAINER]}, self.entry)
        assert mnnvl.inject(once, self.entry) == once

    def test_our_entry_goes_back_behind_the_users_own(self) -> None:
        """Merging may leave a new claim of the user behind ours; the template must stay a prefix of what is stored."""
        container = {**GPU_CONTAINER, "resources": {**GPU_CONTAINER["resources"], "claims": [{"name": "mnnvl"}]}}
        stored = {"containers": [container], "resourceClaims": [self.entry, {"name": "nic", "resourceClaimName": "n"}]}
        after = mnnvl.inject(stored, self.entry)
        assert [claim["name"] for claim in after["resourceClaims"]] == ["nic", "mnnvl"]

    def test_a_container_that_lost_its_gpus_loses_the_claim(self) -> None:
        once = mnnvl.inject({"containers": [GPU_CONTAINER, {**GPU_CONTAINER, "name": "second"}]}, self.entry)
        once["containers"][1]["resources"]["limits"] = {}
        after = mnnvl.inject(once, self.entry)
        assert after["containers"][0]["resources"]["claims"] == [{"name": "mnnvl"}]
        assert after["containers"][1]["resources"]["claims"] == []
        once["containers"][0]["resources"]["limits"] = {}
        assert not mnnvl.uses_gpus(once)
        gone = mnnvl.withdraw(once)
        assert gone["resourceClaims"] == []
        assert mnnvl.claimed(gone) is None

    def test_an_injected_clique_is_in_step_with_its_template(self) -> None:
        owner = stored_set("distributed-training")
        parts = layout(owner, 0, {})
        wished = pod_clique(owner, parts, parts.standalone[0], of_template(owner.spec.template), "", 4)
        injected = copy.deepcopy(wished)
        injected["spec"]["podSpec"] = mnnvl.inject(wished["spec"]["podSpec"], self.entry)
        assert pod_clique_in_step(msgspec.convert(injected, PodClique), wished)


def stored_set(name: str) -> PodCliqueSet:
    document = default(SETS[name])
    meta = {**document["metadata"], "uid": "uid-set", "namespace": "default"}
    return msgspec.convert({**document, "metadata": meta}, PodCliqueSet)


class TestGangsThatTakeDomains:
    @pytest.mark.parametrize(
        ("name", "group", "expected"),
        [
            ("distributed-training", None, True),
            ("multi-model-serving", None, True),
            ("scalable-inference", None, True),
            ("scalable-inference", 1, True),
        ],
    )
    def test_gangs_of_the_three_examples(self, name: str, group: int | None, expected: bool) -> None:
        marks = {labels.SHORT_REPLICA: "0"}
        if group is not None:
            marks |= {labels.SHORT_GROUP: "inference-pool", labels.SHORT_GROUP_REPLICA: str(group)}
        assert mnnvl.gang_takes_domains(stored_set(name), marks) is expected

    def test_a_scaled_gang_takes_nothing_that_the_whole_replica_shares(self) -> None:
        owner = stored_set("scalable-inference")
        owner.spec.template.pod_clique_scaling_groups[0].annotations = {**ASKS, labels.MNNVL_SCOPE: "replica"}
        scaled = {labels.SHORT_REPLICA: "0", labels.SHORT_GROUP: "inference-pool", labels.SHORT_GROUP_REPLICA: "1"}
        assert not mnnvl.gang_takes_domains(owner, scaled)
        assert mnnvl.gang_takes_domains(owner, {labels.SHORT_REPLICA: "0"})

    def test_nobody_takes_domains_where_nobody_has_gpus(self) -> None:
        owner = stored_set("distributed-training")
        for clique in owner.spec.template.cliques:
            clique.spec.pod_spec = {"containers": [{"name": "main", "image": "i"}]}
        assert not mnnvl.gang_takes_domains(owner, {labels.SHORT_REPLICA: "0"})


class TestDeviceClasses:
    def test_cliques_that_share_a_domain_ask_for_one_device_class(self) -> None:
        document = copy.deepcopy(default(SETS["distributed-training"]))
        special = document["spec"]["template"]["cliques"][1]
        special["annotations"] = {labels.MNNVL_DEVICE_CLASS: "special"}
        (error,) = validate(document, None, Context.offline()).errors
        assert "clique 'worker' shares the ComputeDomain" in str(error)
        special["annotations"][labels.MNNVL_SCOPE] = "clique"
        assert validate(document, None, Context.offline()).allowed


# Ownership.


def reference(kind: str, name: str, uid: str) -> OwnerReference:
    version = {"PodGang": "scheduler.grove.io/v1alpha1", "PodCliqueSet": "grove.io/v1alpha1"}.get(kind, "v1")
    return OwnerReference(api_version=version, kind=kind, name=name, uid=uid, controller=True)


BY_SET = reference("PodCliqueSet", "train", "uid-set")
BY_GANG = reference("PodGang", "train-1", "uid-gang")


def meta(name: str, *owners: OwnerReference, of: Domain | None = None, **more: Any) -> ObjectMeta:
    marks = dict((of or domain()).labels)
    return ObjectMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        resource_version="7",
        labels=more.pop("labels", marks),
        owner_references=list(owners),
        **more,
    )


def gang(annotations: dict[str, str] | None = None, cliques: tuple[str, ...] = ("train-1-worker",)) -> PodGang:
    return PodGang(
        metadata=ObjectMeta(
            name="train-1",
            namespace="default",
            uid="uid-gang",
            annotations=annotations or {},
            owner_references=[BY_SET],
        ),
        spec=PodGangSpec(podgroups=[PodGroup(name=name) for name in cliques]),
    )


def clique(name: str = "train-1-worker", **more: Any) -> PodClique:
    metadata = ObjectMeta(
        name=name, namespace="default", labels=more.get("labels", PLACE), annotations=more.get("annotations", ASKS)
    )
    return PodClique(
        metadata=metadata, spec=PodCliqueSpec(pod_spec={"containers": [more.get("container", GPU_CONTAINER)]})
    )


def world(*owners: OwnerReference, **more: Any) -> GangDomains:
    """The gang, its clique, and a domain and a claim with these owners."""
    return GangDomains(
        gang=more.get("gang", gang()),
        cliques=more.get("cliques", [clique()]),
        domains=more.get("domains", {"train-1-cd": ComputeDomain(metadata=meta("train-1-cd", *owners))}),
        claims=more.get("claims", {"train-1-mnnvl-claim": DeviceClaim(metadata=meta("train-1-mnnvl-claim", *owners))}),
    )


def written(plan: Plan) -> list[str]:
    found = []
    for stage in plan.stages:
        for action in stage:
            name = action.body["metadata"]["name"] if isinstance(action, Create) else action.name
            found.append(f"{type(action).__name__} {name}")
    return found


class TestOwnership:
    @pytest.mark.parametrize(
        ("owners", "more", "against"),
        [
            ([BY_SET], {}, ""),
            ([BY_GANG], {}, ""),
            ([], {}, ""),
            ([BY_SET], {"labels": {}}, "not ours: its label grove.io/mnnvl-managed"),
            (
                [BY_SET],
                {"labels": domain().labels | {labels.SHORT_SET: "other"}},
                "not ours: its label grove.io/pcs-name",
            ),
            ([reference("Deployment", "d", "u")], {}, "belongs to Deployment 'd'"),
            ([reference("PodGang", "train-2", "u")], {}, "belongs to PodGang 'train-2'"),
            ([reference("PodCliqueSet", "train", "old")], {}, "left from an earlier PodCliqueSet"),
            ([reference("PodGang", "train-1", "old")], {}, "left from an earlier PodGang"),
            ([BY_GANG], {"deletion_timestamp": "2026-01-01T00:00:00Z"}, "being deleted"),
        ],
    )
    def test_only_what_is_ours_is_used(self, owners: list[OwnerReference], more: Json, against: str) -> None:
        found = objection(meta("train-1-cd", *owners, **more), domain(), "uid-set", "uid-gang")
        assert against in found
        assert bool(found) is bool(against)

    def test_what_belongs_to_the_set_moves_to_the_gang_which_then_says_so(self) -> None:
        plan = plan_gang(world(BY_SET, gang=gang({labels.MNNVL_ADOPTED: "false"})))
        assert written(plan) == ["Patch train-1-cd", "Patch train-1-mnnvl-claim", "Patch train-1"]
        (moved, _), (mark,) = plan.stages
        assert isinstance(moved, Patch)
        assert moved.operations[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
        expected = owner_reference("scheduler.grove.io/v1alpha1", "PodGang", "train-1", "uid-gang")
        assert moved.operations[1]["value"] == [expected]
        assert isinstance(mark, Patch)
        path = "/metadata/annotations/grove.io~1mnnvl-resources-adopted"
        assert mark.operations[-1] == {"op": "add", "path": path, "value": "true"}

    def test_at_rest_nothing_is_written(self) -> None:
        assert plan_gang(world(BY_GANG, gang=gang({labels.MNNVL_ADOPTED: "true"}))) == Plan()

    def test_a_gang_without_domains_is_left_alone(self) -> None:
        plain = clique(annotations={})
        assert plan_gang(world(cliques=[plain], domains={}, claims={})) == Plan()
        without_gpus = clique(container={"name": "main"})
        assert plan_gang(world(cliques=[without_gpus], domains={}, claims={})) == Plan()

    def test_what_an_earlier_gang_of_the_name_left_is_taken_over(self) -> None:
        assert "Patch train-1-cd" in written(plan_gang(world(reference("PodGang", "train-1", "old"))))

    def test_what_is_gone_is_made_again_and_owned_at_once(self) -> None:
        plan = plan_gang(world(domains={}, claims={}))
        assert written(plan) == ["Create train-1-cd", "Create train-1-mnnvl-claim", "Patch train-1"]
        first = plan.stages[0][0]
        assert isinstance(first, Create)
        assert first.body["metadata"]["ownerReferences"][0]["uid"] == "uid-gang"

    def test_what_no_clique_has_come_for_yet_is_adopted_but_not_called_complete(self) -> None:
        assert written(plan_gang(world(BY_SET, cliques=[]))) == ["Patch train-1-cd", "Patch train-1-mnnvl-claim"]

    def test_an_adoption_is_complete_only_when_every_clique_stands(self) -> None:
        pending = gang(cliques=("train-1-worker", "train-1-late"))
        assert written(plan_gang(world(BY_GANG, gang=pending))) == []
        late = clique("train-1-late", annotations={})
        assert written(plan_gang(world(BY_GANG, gang=pending, cliques=[clique(), late]))) == ["Patch train-1"]

    def test_what_is_not_ours_is_reported_and_not_touched(self) -> None:
        stranger = reference("Deployment", "d", "u")
        plan = plan_gang(world(stranger))
        assert written(plan) == []
        assert "ComputeDomain train-1-cd cannot be used: it is not ours" in str(plan.waits[0].why)

    def test_a_domain_that_is_going_is_waited_for(self) -> None:
        going = ComputeDomain(metadata=meta("train-1-cd", BY_GANG, deletion_timestamp="2026-01-01T00:00:00Z"))
        plan = plan_gang(world(BY_GANG, domains={"train-1-cd": going}))
        assert written(plan) == []
        assert len(plan.waits) == 1

    def test_other_owners_are_kept(self) -> None:
        other = OwnerReference(api_version="v1", kind="ConfigMap", name="c", uid="u")
        plan = plan_gang(world(BY_SET, other))
        moved = plan.stages[0][0]
        assert isinstance(moved, Patch)
        assert [owner["kind"] for owner in moved.operations[1]["value"]] == ["PodGang", "ConfigMap"]

    def test_replicas_of_a_group_below_its_minimum_belong_to_the_base_gang(self) -> None:
        owner = stored_set("scalable-inference")
        parts = layout(owner, 0, {"inference-pool": (0, 1, 2)})
        cliques = [
            PodClique(
                metadata=ObjectMeta(
                    name=slot.name,
                    namespace="default",
                    labels=position_labels(parts, slot),
                    annotations=owner.spec.template.pod_clique_scaling_groups[0].annotations,
                ),
                spec=slot.template.spec,
            )
            for slot in parts.slots()
        ]
        owned = {
            each.name: list(wanted(PodGang(metadata=ObjectMeta(name=each.name), spec=PodGangSpec()), cliques))
            for each in parts.gangs
        }
        assert owned == {
            "scalable-inference-0": ["scalable-inference-0-inference-pool-0-cd"],
            "scalable-inference-0-inference-pool-1": ["scalable-inference-0-inference-pool-1-cd"],
            "scalable-inference-0-inference-pool-2": ["scalable-inference-0-inference-pool-2-cd"],
        }
