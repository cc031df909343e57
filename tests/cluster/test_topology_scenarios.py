"""The life of a cluster's topology: configured, changed, broken, switched off; and what workloads get to see of it.

The operator is restarted with another configuration, as an administrator does, and put back afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
from operator_process import OperatorProcess
from scenario_objects import Json, clique, condition_of, names, packed, pod_clique_set, refusal, uids
from workbench import CLIQUES, GANGS, PODS, SETS, Workbench, eventually

from grove.localcluster import ClusterSpec, ComponentError, RunningCluster, Scheduler, bootstrap, reset, up
from grove.localcluster.nodes import BLOCK_LABEL, HOST_LABEL, RACK_LABEL
from grove.localcluster.rest import ApiError, ApiServer

KEYS = {"block": BLOCK_LABEL, "rack": RACK_LABEL, "host": HOST_LABEL}
OURS = "/apis/grove.io/v1alpha1/clustertopologies"
KAIS = "/apis/kai.scheduler/v1alpha1/topologies"
NAME = "grove-topology"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/grove:system:grove-operator"
READY = "ClusterTopology configured and KAI Topology created successfully"
DISABLED = "Topology support disabled in operator configuration. Required constraints removed."


def levels(*domains: str) -> Json:
    return {"enabled": True, "levels": [{"domain": domain, "key": KEYS[domain]} for domain in domains]}


def found(api: ApiServer, root: str) -> Json | None:
    try:
        return api.get(f"{root}/{NAME}")
    except ApiError as error:
        if error.status != 404:
            raise
        return None


def until_topology(api: ApiServer, *domains: str) -> Json:
    """Wait until both topologies are what the configuration says and Ready; ours."""

    def settled() -> Json | None:
        ours, kais = found(api, OURS), found(api, KAIS)
        if ours is None or kais is None or condition_of(ours, "Ready").get("status") != "True":
            return None
        current = ours["status"]["observedGeneration"] == ours["metadata"]["generation"]
        same = [level["domain"] for level in ours["spec"]["levels"]] == list(domains)
        keys = [level["nodeLabel"] for level in kais["spec"]["levels"]] == [KEYS[domain] for domain in domains]
        return ours if current and same and keys else None

    return eventually(f"a topology of {', '.join(domains)}", settled) or {}


def until_no_topology(api: ApiServer) -> None:
    eventually("both topologies to go", lambda: found(api, OURS) is None and found(api, KAIS) is None)


def pack_of(bench: Workbench, gang: str) -> Json:
    constraint = bench.get(GANGS, gang)["spec"].get("topologyConstraint") or {}
    pack: Json = constraint.get("packConstraint") or {}
    return pack


def until_pack(bench: Workbench, gang: str, **expected: str) -> None:
    bench.until(f"{gang} to ask for {expected}", lambda: pack_of(bench, gang) == expected)


def until_verdict(bench: Workbench, name: str, reason: str, message: str) -> None:
    bench.until(
        f"the verdict {reason} on {name}",
        lambda: bench.condition(SETS, name, "TopologyConstraints").get("reason") == reason,
    )
    verdict = bench.condition(SETS, name, "TopologyConstraints")
    assert verdict["message"] == message
    assert verdict["observedGeneration"] == bench.get(SETS, name)["metadata"]["generation"]


def topology_events(api: ApiServer) -> set[str]:
    events = api.get("/api/v1/namespaces/default/events")["items"]
    return {e["message"] for e in events if e["involvedObject"]["kind"] == "ClusterTopology"}


def packed_set(bench: Workbench, name: str, domain: str | None, replicas: int = 1, pods: int = 2) -> Json:
    template = {"topologyConstraint": packed(domain)} if domain else {}
    return bench.placed(pod_clique_set(name, clique("w", pods), replicas=replicas, **template))


def asks_for(bench: Workbench, domain: str) -> str:
    """What admission has against a workload packed in this domain."""
    return refusal(lambda: bench.create(packed_set(bench, "refused", domain)))


def test_configured_levels_become_both_topologies(api: ApiServer, operator: OperatorProcess) -> None:
    operator.start(topology=levels("rack", "host"))
    ours = until_topology(api, "rack", "host")
    ready = condition_of(ours, "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == ("True", "TopologyReady", READY)
    assert ours["spec"]["levels"] == [{"domain": "rack", "key": RACK_LABEL}, {"domain": "host", "key": HOST_LABEL}]


def test_only_the_operator_writes_the_topology_and_it_repairs_the_schedulers(
    api: ApiServer, operator: OperatorProcess
) -> None:
    operator.start(topology=levels("rack", "host"))
    ours = until_topology(api, "rack", "host")
    other = {**ours, "metadata": {"name": "other"}}
    assert "ClusterTopology can only be created by the operator" in refusal(lambda: api.create(OURS, other))
    changes = {"spec": {"levels": ours["spec"]["levels"][:1]}}
    assert "ClusterTopology can only be modified by the operator" in refusal(
        lambda: api.merge(f"{OURS}/{NAME}", changes)
    )
    assert "ClusterTopology can only be deleted by the operator" in refusal(lambda: api.delete(f"{OURS}/{NAME}"))

    before = api.get(f"{KAIS}/{NAME}")["metadata"]["uid"]
    api.delete(f"{KAIS}/{NAME}")
    again = eventually("KAI's topology to come back", lambda: found(api, KAIS)) or {}
    assert again["metadata"]["uid"] != before


def test_switching_topology_off_loosens_workloads_and_refuses_new_constraints(
    bench: Workbench, api: ApiServer, operator: OperatorProcess
) -> None:
    operator.start(topology=levels("rack", "host"))
    bench.add_nodes(4, racks=2)
    bench.create(packed_set(bench, "web", "rack"))
    bench.until_counts(total=2, running=2)
    until_pack(bench, "web-0", required=RACK_LABEL, preferred=HOST_LABEL)
    before = uids(bench.pods())

    operator.start(topology={"enabled": False})
    until_no_topology(api)
    until_pack(bench, "web-0", preferred=HOST_LABEL)
    until_verdict(bench, "web", "TopologyDisabled", DISABLED)
    assert uids(bench.pods()) == before
    assert "topology support is not enabled in the operator" in asks_for(bench, "rack")

    victim = bench.pods()[0]["metadata"]["name"]
    bench.delete(PODS, victim)
    bench.until("the replaced pod to be scheduled", lambda: len(bench.ready()) == 2 and uids(bench.pods()) != before)
    bench.scale(CLIQUES, "web-0-w", 4)
    bench.until_counts(total=4, running=4)


def test_invalid_configuration_ends_the_start_and_leaves_nothing_behind(
    api: ApiServer, operator: OperatorProcess
) -> None:
    operator.start(topology={"enabled": False})
    until_no_topology(api)
    twice = [{"domain": "rack", "key": RACK_LABEL}, {"domain": "rack", "key": "topology.kubernetes.io/other-rack"}]
    with pytest.raises(ComponentError, match="duplicate topology domain 'rack' in configuration"):
        operator.start(topology={"enabled": True, "levels": twice})
    assert found(api, OURS) is None
    assert found(api, KAIS) is None


def test_workloads_are_judged_by_the_levels_there_are(bench: Workbench, operator: OperatorProcess) -> None:
    operator.start(topology=levels("rack", "host"))
    message = "topology level 'block' not defined in ClusterTopology 'grove-topology'"
    assert message in asks_for(bench, "block")

    group = {"name": "workers", "cliqueNames": ["w"], "topologyConstraint": packed("rack")}
    wrong = pod_clique_set("web", clique("w", 1), topologyConstraint=packed("host"), podCliqueScalingGroups=[group])
    message = "child topology constraint 'rack' must be equal to or stricter than parent constraint 'host'"
    assert message in refusal(lambda: bench.create(wrong))


def test_added_level_leaves_running_workloads_alone_and_can_be_used(
    bench: Workbench, api: ApiServer, operator: OperatorProcess
) -> None:
    operator.start(topology=levels("rack", "host"))
    bench.add_nodes(4, racks=2)
    bench.create(packed_set(bench, "old", "rack"))
    bench.until_counts(total=2, running=2)
    bench.until_settled("old")
    gang, pods = bench.get(GANGS, "old-0"), uids(bench.pods())
    verdict = bench.condition(SETS, "old", "TopologyConstraints")

    operator.start(topology=levels("rack", "block", "host"))
    ours = until_topology(api, "rack", "block", "host")
    told = condition_of(ours, "Ready")["message"]
    assert "Levels are written as rack, block, host" in told
    eventually("an event that says so", lambda: told in topology_events(api))
    assert "topology levels are written as rack > block > host" in operator.log()
    bench.create(packed_set(bench, "new", "block"))
    bench.until_counts(total=4, running=4)
    assert pack_of(bench, "new-0") == {"required": BLOCK_LABEL, "preferred": HOST_LABEL}
    assert len(bench.domains(bench.pods(gang="new-0"), BLOCK_LABEL)) == 1
    after = bench.get(GANGS, "old-0")
    assert after["metadata"]["generation"] == gang["metadata"]["generation"]
    assert bench.condition(SETS, "old", "TopologyConstraints") == verdict
    assert pods <= uids(bench.pods())


def test_removed_level_loosens_those_that_used_it_and_no_others(
    bench: Workbench, api: ApiServer, operator: OperatorProcess
) -> None:
    operator.start(topology=levels("rack", "block", "host"))
    bench.add_nodes(6, racks=2)
    bench.create(packed_set(bench, "wl-1", "block"))
    bench.create(packed_set(bench, "wl-2", "rack"))
    bench.until_counts(total=4, running=4)
    bench.until_settled("wl-2")
    pods, other = uids(bench.pods()), bench.get(GANGS, "wl-2-0")["metadata"]["generation"]

    operator.start(topology=levels("rack", "host"))
    until_topology(api, "rack", "host")
    until_pack(bench, "wl-1-0", preferred=HOST_LABEL)
    until_verdict(
        bench,
        "wl-1",
        "TopologyLevelNotFound",
        "Topology level 'block' not found in ClusterTopology 'grove-topology'. "
        "Remove packDomain or update ClusterTopology.",
    )
    assert uids(bench.pods()) == pods
    assert bench.get(GANGS, "wl-2-0")["metadata"]["generation"] == other
    assert bench.condition(SETS, "wl-2", "TopologyConstraints")["reason"] == "TopologyLevelsAvailable"
    assert "topology level 'block' not defined" in asks_for(bench, "block")
    bench.scale(CLIQUES, "wl-1-0-w", 4)
    bench.until_counts(total=6, running=6)


def test_several_removed_levels_are_told_together(bench: Workbench, operator: OperatorProcess) -> None:
    operator.start(topology=levels("block", "rack", "host"))
    wanted = pod_clique_set(
        "web", clique("w", 1, topologyConstraint=packed("rack")), topologyConstraint=packed("block")
    )
    bench.create(wanted)
    bench.until_running(1)
    operator.start(topology=levels("host"))
    message = "Topology levels removed from ClusterTopology: [block, rack]. Update packDomain constraints."
    until_verdict(bench, "web", "TopologyLevelsRemoved", message)


def test_refused_topology_of_the_scheduler_is_told_and_made_when_it_may_be(
    api: ApiServer, operator: OperatorProcess
) -> None:
    rules = api.get(ROLE)["rules"]
    reading = [
        {**rule, "verbs": ["get", "list", "watch"]} if rule["apiGroups"] == ["kai.scheduler"] else rule
        for rule in rules
    ]
    operator.start(topology=levels("rack", "host"))
    until_topology(api, "rack", "host")
    try:
        api.merge(ROLE, {"rules": reading})
        api.delete(f"{KAIS}/{NAME}")
        failed = eventually("the topology not to be ready", lambda: not_ready(api)) or {}
    finally:
        api.merge(ROLE, {"rules": rules})
    ready = condition_of(failed, "Ready")
    assert ready["reason"] == "KAITopologyCreationOrUpdateFailed"
    assert ready["message"].startswith("Failed to create KAI Topology CR: ")
    assert "forbidden" in ready["message"]
    (error,) = failed["status"]["lastErrors"]
    assert error["code"] == "KAI_TOPOLOGY_CREATE_ERROR"
    assert error["description"].startswith("Failed to create KAI Topology resource: ")
    assert not until_topology(api, "rack", "host")["status"].get("lastErrors")


def not_ready(api: ApiServer) -> Json | None:
    ours = found(api, OURS)
    return ours if ours and condition_of(ours, "Ready").get("status") == "False" else None


def test_refused_cluster_topology_ends_the_operator_with_the_reason(api: ApiServer, operator: OperatorProcess) -> None:
    operator.start(topology=levels("rack", "host"))
    before = until_topology(api, "rack", "host")
    rules = api.get(ROLE)["rules"]
    reading = [
        {**rule, "verbs": ["get", "list", "watch"]} if "clustertopologies" in rule["resources"] else rule
        for rule in rules
    ]
    try:
        api.merge(ROLE, {"rules": reading})
        with contextlib.suppress(ComponentError):  # it may end before or after it was seen ready
            operator.start(topology=levels("rack", "block", "host"))
        reason = f"error: ClusterTopology {NAME} cannot be written: "
        eventually("the operator to say why it ended", lambda: reason in operator.log())
    finally:
        api.merge(ROLE, {"rules": rules})
    after = found(api, OURS) or {}
    assert after["spec"] == before["spec"]
    assert condition_of(after, "Ready")["status"] == "True"
    operator.start(topology=levels("rack", "block", "host"))
    until_topology(api, "rack", "block", "host")


def test_level_the_scheduler_cannot_take_is_told_and_the_operator_goes_on(
    bench: Workbench, api: ApiServer, operator: OperatorProcess
) -> None:
    operator.start(topology=levels("host", "rack"))
    failed = eventually("the topology not to be ready", lambda: not_ready(api)) or {}
    assert condition_of(failed, "Ready")["reason"] == "KAITopologyCreationOrUpdateFailed"
    operator.start(topology=levels("rack", "host"))
    until_topology(api, "rack", "host")


@pytest.fixture
def without_kai(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A small cluster with the operator that knows nothing of KAI."""
    folder = tmp_path_factory.mktemp("without-kai") / "cluster"
    spec = ClusterSpec(name="pytest-no-kai", nodes=1, racks=1, blocks=1, scheduler=Scheduler.KUBE, operator=True)
    yield up(replace(spec, data_dir=folder))
    reset(spec.name, folder)


def test_topology_becomes_ready_at_once_when_kai_is_installed(without_kai: RunningCluster) -> None:
    with without_kai.api() as api:
        failed = eventually("the topology not to be ready", lambda: not_ready(api)) or {}
        assert condition_of(failed, "Ready")["message"] == "Failed to create KAI Topology CR: API not available"
        bootstrap.install_kai(api)
        eventually("KAI's topology", lambda: found(api, KAIS), limit=20)
        eventually(
            "the topology to be ready",
            lambda: condition_of(found(api, OURS) or {}, "Ready").get("status") == "True",
            limit=20,
        )


def test_constraint_can_be_changed_and_binds_only_pods_to_come(bench: Workbench, operator: OperatorProcess) -> None:
    operator.start(topology=levels("rack", "host"))
    bench.add_nodes(9, racks=3)
    wanted = pod_clique_set("web", clique("w", 3), replicas=2, topologyConstraint=packed("rack"))
    bench.create(bench.placed(wanted))
    bench.until_counts(total=6, running=6)
    before = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in bench.pods()}
    assert all(len(bench.domains(bench.pods(replica=str(i)))) == 1 for i in range(2))

    bench.edit("web", lambda spec: spec["template"].update(topologyConstraint=packed("host")))
    until_pack(bench, "web-0", required=HOST_LABEL)
    until_pack(bench, "web-1", required=HOST_LABEL)
    assert {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in bench.pods()} == before

    bench.scale(SETS, "web", 3)
    bench.until_refused(total=9, running=6)

    bench.edit("web", lambda spec: spec["template"].update(topologyConstraint=packed("rack")))
    bench.until_counts(total=9, running=9)
    assert len(bench.domains(bench.pods(replica="2"))) == 1
    assert before.items() <= {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in bench.pods()}.items()


def test_whole_life_of_a_topology_restarts_no_pod(bench: Workbench, api: ApiServer, operator: OperatorProcess) -> None:
    bench.add_nodes(8, racks=2)
    operator.start(topology={"enabled": False})
    until_no_topology(api)
    bench.create(packed_set(bench, "plain", None))
    bench.until_counts(total=2, running=2)
    assert pack_of(bench, "plain-0") == {}

    operator.start(topology=levels("rack", "host"))
    until_topology(api, "rack", "host")
    until_pack(bench, "plain-0", preferred=HOST_LABEL)
    bench.create(packed_set(bench, "racked", "rack"))
    bench.until_counts(total=4, running=4)
    assert len(bench.domains(bench.pods(gang="racked-0"))) == 1

    operator.start(topology=levels("rack", "block", "host"))
    until_topology(api, "rack", "block", "host")
    bench.create(packed_set(bench, "blocked", "block"))
    bench.until_counts(total=6, running=6)
    pods = uids(bench.pods())

    operator.start(topology=levels("rack", "host"))
    until_pack(bench, "blocked-0", preferred=HOST_LABEL)
    until_pack(bench, "racked-0", required=RACK_LABEL, preferred=HOST_LABEL)

    operator.start(topology={"enabled": False})
    until_no_topology(api)
    for name in ("racked", "blocked"):
        until_pack(bench, f"{name}-0", preferred=HOST_LABEL)
        until_verdict(bench, name, "TopologyDisabled", DISABLED)
    assert "topology support is not enabled in the operator" in asks_for(bench, "rack")
    assert uids(bench.pods()) == pods
    assert names(bench.ready()) == names(bench.pods())
