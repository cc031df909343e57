"""Multi-node NVLink on a real cluster: the three ways to share a ComputeDomain, from creation to the last trace.

Claims are allocated for real: a DeviceClass and one device per ComputeDomain, reachable from every node, stand for the
NVIDIA driver. The operator runs with the rights of deploy/ and nothing more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from workbench import eventually

from grove.localcluster import ClusterSpec, LocalClusterError, RunningCluster, Scheduler, reset, restart, up
from grove.localcluster.progress import PlainProgress

Json = dict[str, Any]

DATA = Path(__file__).parents[1] / "data"
CRD = DATA / "computedomains.yaml"
SETS = {document["metadata"]["name"]: document for document in yaml.safe_load_all((DATA / "mnnvl.yaml").read_text())}
DEVICE_CLASS = "compute-domain.nvidia.com"
TRAINING, SERVING, INFERENCE = "distributed-training", "multi-model-serving", "scalable-inference"
POOL = f"{INFERENCE}-0-inference-pool"
STEMS = [
    *(f"{TRAINING}-{i}" for i in range(3)),
    *(f"{SERVING}-0-{clique}" for clique in ("llama-70b", "mixtral")),
    *(f"{POOL}-{j}" for j in range(4)),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster of this module's own: its operator has MNNVL switched on. There is no driver yet."""
    folder = tmp_path_factory.mktemp("mnnvl")
    configuration = folder / "operator.yaml"
    configuration.write_text(yaml.safe_dump({"mnnvl": {"enabled": True}}))
    spec = ClusterSpec(
        name="mnnvl",
        nodes=16,
        racks=2,
        blocks=1,
        scheduler=Scheduler.KUBE,
        operator=True,
        operator_config=configuration,
        data_dir=folder / "cluster",
    )
    yield up(spec, PlainProgress())
    reset(spec.name, spec.data_dir)


@pytest.fixture(scope="module")
def driver(cluster: RunningCluster) -> RunningCluster:
    """The cluster with the driver's kinds and devices; a workload that came too early has been refused."""
    said = refused(cluster, SETS[TRAINING], "default")
    assert "this cluster has no ComputeDomain resource" in said
    plain = {**SETS[SERVING], "metadata": {"name": "plain"}, "spec": {"template": {"cliques": [_router()]}}}
    assert refused(cluster, plain, "default", "--dry-run=server") == ""
    cluster.kubectl("create", "-f", str(CRD))
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DEVICE_CLASS}}
    selector = {"cel": {"expression": f"device.driver == '{DEVICE_CLASS}'"}}
    slices = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "domains"},
        "spec": {
            "driver": DEVICE_CLASS,
            "pool": {"name": "domains", "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [
                {"name": f"channel-{number}", "attributes": {"name": {"string": f"{stem}-cd"}}}
                for number, stem in enumerate(STEMS)
            ],
        },
    }
    make(cluster, {**device_class, "spec": {"selectors": [selector]}}, slices)
    eventually(
        "the operator to see the driver",
        lambda: refused(cluster, SETS[TRAINING], "default", "--dry-run=server") == "",
    )
    return cluster


def _router() -> Json:
    router: Json = SETS[SERVING]["spec"]["template"]["cliques"][2]
    return router


def make(cluster: RunningCluster, *documents: Json, namespace: str = "default") -> None:
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin="\n---\n".join(json.dumps(d) for d in documents))


def refused(cluster: RunningCluster, document: Json, namespace: str, *options: str) -> str:
    """What is said against creating this; empty when nothing is."""
    try:
        cluster.kubectl("create", "-n", namespace, *options, "-f", "-", stdin=json.dumps(document))
    except LocalClusterError as error:
        return str(error)
    return ""


class Stage:
    """One namespace, looked at."""

    def __init__(self, cluster: RunningCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl(*arguments, "-n", self.namespace)

    def get(self, kind: str) -> dict[str, Json]:
        items = json.loads(self.kubectl("get", kind, "-o", "json"))["items"]
        return {item["metadata"]["name"]: item for item in items}

    def owners(self, kind: str) -> dict[str, str]:
        """The names of a kind, each with the controller it belongs to."""
        return {
            name: "/".join(
                owner["name"] for owner in item["metadata"].get("ownerReferences", ()) if owner["controller"]
            )
            for name, item in self.get(kind).items()
        }

    def comes_to(self, owners: dict[str, str]) -> None:
        """Domains and claims become exactly these (by stem), owned by these PodGangs, which say so."""
        wanted = (
            {f"{stem}-cd": gang for stem, gang in owners.items()},
            {f"{stem}-mnnvl-claim": gang for stem, gang in owners.items()},
        )
        eventually(
            f"the domains {owners}", lambda: (self.owners("computedomains"), self.owners("resourceclaims")) == wanted
        )
        eventually("the gangs to say so", lambda: set(owners.values()) <= self.adopted())
        gangs = self.get("podgangs")
        for kind in ("computedomains", "resourceclaims"):
            for item in self.get(kind).values():
                (owner,) = item["metadata"]["ownerReferences"]
                assert owner["uid"] == gangs[owner["name"]]["metadata"]["uid"]
                assert (owner["apiVersion"], owner["kind"]) == ("scheduler.grove.io/v1alpha1", "PodGang")

    def adopted(self) -> set[str]:
        mark = "grove.io/mnnvl-resources-adopted"
        gangs = self.get("podgangs").items()
        return {name for name, gang in gangs if gang["metadata"].get("annotations", {}).get(mark) == "true"}

    def runs(self, pods: int) -> None:
        """This many pods, and no others, are ready: every claim could be allocated and shared."""

        def ready() -> bool:
            found = self.get("pods").values()
            states = [c["status"] for p in found for c in p["status"].get("conditions", ()) if c["type"] == "Ready"]
            return len(found) == pods and states == ["True"] * pods

        eventually(f"{pods} ready pods", ready, limit=120)

    def deleted(self, name: str) -> None:
        """The set goes, and with it everything."""
        self.kubectl("delete", "podcliqueset", name)
        kinds = "computedomains,resourceclaims,resourceclaimtemplates,podcliques,podgangs,pods"
        eventually("nothing to be left", lambda: not self.get(kinds))


@pytest.fixture
def stage(driver: RunningCluster, namespace: str) -> Stage:
    return Stage(driver, namespace)


def labels(item: Json, *keys: str) -> dict[str, str | None]:
    return {key: item["metadata"]["labels"].get(f"grove.io/{key}") for key in keys}


def claim_spec(domain: str) -> Json:
    expression = f'device.attributes["compute-domain.nvidia.com"].name == "{domain}"'
    wish = {"deviceClassName": DEVICE_CLASS, "selectors": [{"cel": {"expression": expression}}]}
    return {"name": "mnnvl", "exactly": wish}


def check_objects(stage: Stage) -> None:
    """Every domain leaves its size to its users; every claim selects its domain; both are marked as ours."""
    for domain in stage.get("computedomains").values():
        assert domain["spec"] == {"numNodes": 0}
        assert labels(domain, "mnnvl-managed") == {"mnnvl-managed": "true"}
    for name, claim in stage.get("resourceclaims").items():
        assert claim["apiVersion"] == "resource.k8s.io/v1"
        assert labels(claim, "mnnvl-managed") == {"mnnvl-managed": "true"}
        (request,) = claim["spec"]["devices"]["requests"]
        seen = {
            "name": request["name"],
            "exactly": {k: request["exactly"][k] for k in ("deviceClassName", "selectors")},
        }
        assert seen == claim_spec(name.removesuffix("-mnnvl-claim") + "-cd")


def check_clique(stage: Stage, name: str, claim: str | None) -> None:
    """The clique and its pods use the claim in every container with GPUs, or know nothing of it."""
    pods = [pod["spec"] for pod_name, pod in stage.get("pods").items() if pod_name.startswith(f"{name}-")]
    assert pods
    for spec in (stage.get("podcliques")[name]["spec"]["podSpec"], *pods):
        (container,) = spec["containers"]
        if claim is None:
            assert "resourceClaims" not in spec
            assert "claims" not in container.get("resources", {})
        else:
            assert spec["resourceClaims"] == [{"name": "mnnvl", "resourceClaimName": claim}]
            assert container["resources"]["claims"] == [{"name": "mnnvl"}]


def test_one_domain_for_each_replica(stage: Stage) -> None:
    make(stage.cluster, SETS[TRAINING], namespace=stage.namespace)
    gangs = {f"{TRAINING}-{i}": f"{TRAINING}-{i}" for i in range(3)}
    stage.comes_to({stem: gangs[stem] for stem in list(gangs)[:2]})
    stage.runs(12)
    check_objects(stage)
    for i, domain in enumerate(stage.get("computedomains").values()):
        assert labels(domain, "pcs-name", "pcs-replica-index", "clique-name", "pcsg-name") == {
            "pcs-name": TRAINING,
            "pcs-replica-index": str(i),
            "clique-name": None,
            "pcsg-name": None,
        }
        for clique in ("worker", "parameter-server"):
            check_clique(stage, f"{TRAINING}-{i}-{clique}", f"{TRAINING}-{i}-mnnvl-claim")
    worker = stage.get("podcliques")[f"{TRAINING}-0-worker"]
    assert worker["metadata"]["annotations"]["grove.io/mnnvl-scope"] == "replica"
    assert labels(worker, "podgang") == {"podgang": f"{TRAINING}-0"}
    # All pods of a replica hold the one claim.
    claim = stage.get("resourceclaims")[f"{TRAINING}-0-mnnvl-claim"]
    assert len(claim["status"]["reservedFor"]) == 6

    stage.kubectl("scale", "podcliqueset", TRAINING, "--replicas=3")
    stage.comes_to(gangs)
    stage.runs(18)
    stage.kubectl("scale", "podcliqueset", TRAINING, "--replicas=1")
    stage.comes_to({f"{TRAINING}-0": f"{TRAINING}-0"})
    stage.runs(6)
    stage.deleted(TRAINING)


def test_one_domain_for_each_clique(stage: Stage) -> None:
    make(stage.cluster, SETS[SERVING], namespace=stage.namespace)
    gang = f"{SERVING}-0"
    stage.comes_to({f"{gang}-llama-70b": gang, f"{gang}-mixtral": gang})
    stage.runs(8)
    check_objects(stage)
    domains = stage.get("computedomains")
    for clique in ("llama-70b", "mixtral"):
        assert labels(domains[f"{gang}-{clique}-cd"], "pcs-name", "pcs-replica-index", "clique-name") == {
            "pcs-name": SERVING,
            "pcs-replica-index": "0",
            "clique-name": clique,
        }
        check_clique(stage, f"{gang}-{clique}", f"{gang}-{clique}-mnnvl-claim")
    check_clique(stage, f"{gang}-router", None)

    # An update changes the pods and nothing else: the domains are the same ones, the claims stay injected.
    before = {name: item["metadata"]["uid"] for name, item in domains.items()}
    image = {"op": "replace", "path": "/spec/template/cliques/1/spec/podSpec/containers/0/image", "value": "vllm:2"}
    stage.kubectl("patch", "podcliqueset", SERVING, "--type=json", "-p", json.dumps([image]))
    eventually(
        "the update",
        lambda: (
            {p["spec"]["containers"][0]["image"] for n, p in stage.get("pods").items() if "-mixtral-" in n}
            == {"vllm:2"}
        ),
    )
    stage.runs(8)
    check_clique(stage, f"{gang}-mixtral", f"{gang}-mixtral-mnnvl-claim")
    assert {name: item["metadata"]["uid"] for name, item in stage.get("computedomains").items()} == before
    # What somebody removes comes back.
    stage.kubectl("delete", "computedomain", f"{gang}-mixtral-cd")
    stage.comes_to({f"{gang}-llama-70b": gang, f"{gang}-mixtral": gang})
    stage.deleted(SERVING)


def test_one_domain_for_each_replica_of_a_scaling_group(stage: Stage) -> None:
    make(stage.cluster, SETS[INFERENCE], namespace=stage.namespace)
    # The replica below minAvailable lives in the base gang, and its domain with it.
    owners = {f"{POOL}-{j}": f"{POOL}-{j}" if j else f"{INFERENCE}-0" for j in range(4)}
    stage.comes_to({stem: owners[stem] for stem in list(owners)[:3]})
    stage.runs(6)
    check_objects(stage)
    for j in range(3):
        marks = {"pcs-name": INFERENCE, "pcs-replica-index": "0", "pcsg-name": "inference-pool"}
        wanted = {**marks, "pcsg-replica-index": str(j)}
        assert labels(stage.get("computedomains")[f"{POOL}-{j}-cd"], *wanted) == wanted
        check_clique(stage, f"{POOL}-{j}-gpu-worker", f"{POOL}-{j}-mnnvl-claim")
    worker = stage.get("podcliques")[f"{POOL}-1-gpu-worker"]
    assert worker["metadata"]["annotations"]["grove.io/mnnvl-scope"] == "scalingGroupReplica"
    assert labels(worker, "podgang", "pcsg-replica-index") == {"podgang": f"{POOL}-1", "pcsg-replica-index": "1"}

    stage.kubectl("scale", "podcliquescalinggroup", POOL, "--replicas=4")
    stage.comes_to(owners)
    stage.runs(8)
    stage.kubectl("scale", "podcliquescalinggroup", POOL, "--replicas=2")
    stage.comes_to({stem: owners[stem] for stem in list(owners)[:2]})
    stage.runs(4)
    stage.deleted(INFERENCE)


def asked(cluster: RunningCluster) -> int:
    """How often the API server has called the webhooks of MNNVL, but for tries."""
    counts = cluster.kubectl("get", "--raw", "/metrics").splitlines()
    calls = [line for line in counts if line.startswith("apiserver_admission_webhook_request_total{")]
    return sum(int(float(line.rpartition(" ")[2])) for line in calls if ".mnnvl.webhooks.grove.io" in line)


def test_a_workload_that_does_not_ask_is_not_held_up(stage: Stage) -> None:
    """Neither its cliques nor its gangs are shown to the webhooks."""
    before = asked(stage.cluster)
    plain = {
        **SETS[SERVING],
        "metadata": {"name": "plain"},
        "spec": {"template": {"cliques": [_router()]}, "replicas": 1},
    }
    make(stage.cluster, plain, namespace=stage.namespace)
    stage.runs(2)
    assert set(stage.get("podgangs")) == {"plain-0"}
    assert asked(stage.cluster) == before
    stage.deleted("plain")
    make(stage.cluster, SETS[SERVING], namespace=stage.namespace)
    stage.runs(8)
    assert asked(stage.cluster) == before + 3  # two cliques and the gang
    stage.deleted(SERVING)


def test_a_domain_of_somebody_else_is_left_alone(stage: Stage) -> None:
    mine = {
        "apiVersion": "resource.nvidia.com/v1alpha1",
        "kind": "ComputeDomain",
        "metadata": {"name": f"{POOL}-0-cd"},
        "spec": {"numNodes": 2},
    }
    make(stage.cluster, mine, SETS[INFERENCE], namespace=stage.namespace)

    def told() -> bool:
        status = stage.get("podcliquesets")[INFERENCE].get("status", {})
        return any(
            "exists and cannot be used: it is not ours" in e["description"] for e in status.get("lastErrors", ())
        )

    eventually("the status to say what is in the way", told)
    stored = stage.get("computedomains")[f"{POOL}-0-cd"]
    assert stored["spec"] == {"numNodes": 2}
    assert "ownerReferences" not in stored["metadata"]
    assert f"{POOL}-0-gpu-worker" not in stage.get("podcliques")
    assert f"{POOL}-0-mnnvl-claim" not in stage.get("resourceclaims")
    stage.kubectl("delete", "podcliqueset", INFERENCE)
    eventually("ours to be gone", lambda: set(stage.get("computedomains")) == {f"{POOL}-0-cd"})
    eventually("ours to be gone", lambda: not stage.get("resourceclaims,podgangs,podcliques"))


@pytest.mark.parametrize(
    ("place", "annotations", "message"),
    [
        ("set", {"enabled": "yes"}, 'supported values: "true", "false"'),
        ("set", {"enabled": ""}, 'supported values: "true", "false"'),
        ("set", {"enabled": "true", "scope": "node"}, 'supported values: "replica", "clique", "scalingGroupReplica"'),
        ("clique", {"enabled": "true", "scope": "scalingGroupReplica"}, "belongs to no scaling group"),
        ("set", {"enabled": "true", "device-class": "No Such"}, "must be the name of a DeviceClass"),
        ("clique", {"enabled": "true", "device-class": "other", "scope": "replica"}, "shares the ComputeDomain"),
        ("claim", {"enabled": "true"}, "this name is taken by the claim that MNNVL adds"),
    ],
)
def test_bad_annotations_are_refused_and_leave_nothing(
    stage: Stage, place: str, annotations: dict[str, str], message: str
) -> None:
    document = json.loads(json.dumps(SETS[TRAINING]))
    first = document["spec"]["template"]["cliques"][0]
    said = {f"grove.io/mnnvl-{key}": value for key, value in annotations.items()}
    if place == "set":
        document["metadata"]["annotations"] = said
    else:
        first["annotations"] = said
    if place == "claim":
        first["spec"]["podSpec"]["resourceClaims"] = [{"name": "mnnvl", "resourceClaimName": "mine"}]
    assert message in refused(stage.cluster, document, stage.namespace)
    assert not stage.get("podcliquesets,computedomains,resourceclaims")


def test_a_dry_run_is_answered_in_full_and_leaves_nothing(stage: Stage) -> None:
    document = {**SETS[TRAINING], "spec": {**SETS[TRAINING]["spec"], "replicas": 0}}
    make(stage.cluster, document, namespace=stage.namespace)
    uid = stage.get("podcliquesets")[TRAINING]["metadata"]["uid"]
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": TRAINING, "uid": uid}
    clique = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": {
            "name": f"{TRAINING}-0-worker",
            "labels": {"grove.io/pcs-name": TRAINING, "grove.io/pcs-replica-index": "0"},
            "annotations": SETS[TRAINING]["metadata"]["annotations"],
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {**SETS[TRAINING]["spec"]["template"]["cliques"][0]["spec"], "minAvailable": 4},
    }
    answer = stage.cluster.kubectl(
        "create", "--dry-run=server", "-o", "json", "-n", stage.namespace, "-f", "-", stdin=json.dumps(clique)
    )
    claims = json.loads(answer)["spec"]["podSpec"]["resourceClaims"]
    assert claims == [{"name": "mnnvl", "resourceClaimName": f"{TRAINING}-0-mnnvl-claim"}]
    assert not stage.get("podcliques,computedomains,resourceclaims")


def test_a_claim_for_each_pod(stage: Stage) -> None:
    """mnnvl.claims: perPod. Pods get claims of their own from a template that lives as long as their gang."""
    configuration = stage.cluster.spec.operator_config
    assert configuration is not None
    before = configuration.read_text()
    configuration.write_text(yaml.safe_dump({"mnnvl": {"enabled": True, "claims": "perPod"}}))
    try:
        restart(stage.cluster, "operator")
        make(stage.cluster, SETS[INFERENCE], namespace=stage.namespace)
        templates = {f"{POOL}-{j}-mnnvl-claim": f"{POOL}-{j}" if j else f"{INFERENCE}-0" for j in range(3)}
        eventually("the templates", lambda: stage.owners("resourceclaimtemplates") == templates)
        claims = eventually("six claims", lambda: stage.get("resourceclaims") if _made(stage) == 6 else None)
        pods = {owner["name"] for claim in claims.values() for owner in claim["metadata"]["ownerReferences"]}
        assert pods == {f"{POOL}-{j}-gpu-worker-{k}" for j in range(3) for k in range(2)}
        stage.deleted(INFERENCE)
    finally:
        configuration.write_text(before)
        restart(stage.cluster, "operator")


def _made(stage: Stage) -> int:
    return len(stage.get("resourceclaims"))
