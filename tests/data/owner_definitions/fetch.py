"""Takes the definitions of owner kinds from the projects' published Go modules and writes them here, trimmed.

Run it by hand when a version changes: `python tests/data/owner_definitions/fetch.py`. It needs `go` and the module
registry. What is kept of a schema is what it says about the fields that grouping reads, and about all around them; a
branch that holds none of them and is long (pod templates, mostly) becomes "any object", and texts are left out. The
projects are under the Apache License 2.0. Notebook is the exception: its module is in no registry, so its definition is
written by hand after the kind's Go type, and this program leaves it alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Schema = dict[str, Any]
HERE = Path(__file__).parent
SHORT = 400  # characters of a branch that is kept whole
_TEXTS = ("description", "title", "example", "externalDocs")


@dataclass(frozen=True)
class Source:
    """Definitions in one module. `kept` are paths into schemas that stay; `*` stands for list items and map values."""

    module: str
    files: tuple[str, ...]
    kept: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


_TRAINING = tuple(
    f"manifests/base/crds/kubeflow.org_{kind}s.yaml" for kind in ("pytorchjob", "tfjob", "xgboostjob", "jaxjob")
)
_ROLES = tuple(f"spec.{job}ReplicaSpecs.*.replicas" for job in ("pytorch", "tf", "xgb", "jax", "mpi"))
_POLICY = "spec.runPolicy.schedulingPolicy.minAvailable"
_WORKER_GROUP = ("replicas", "minReplicas", "maxReplicas", "numOfHosts", "suspend")
_RAY = tuple(
    f"spec.{prefix}{field}"
    for prefix in ("", "rayClusterSpec.", "rayClusterConfig.")
    for field in ("headGroupSpec.rayStartParams", *(f"workerGroupSpecs.*.{name}" for name in _WORKER_GROUP))
)
_JOB = "spec.replicatedJobs.*"

SOURCES = (
    Source(
        "sigs.k8s.io/jobset@v0.10.1",
        ("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",),
        (f"{_JOB}.replicas", f"{_JOB}.dependsOn.*.name", f"{_JOB}.template.spec.parallelism", "spec.startupPolicy"),
    ),
    Source(
        "sigs.k8s.io/lws@v0.7.0",
        ("config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",),
        ("spec.leaderWorkerTemplate.size", "spec.startupPolicy"),
    ),
    Source(
        "github.com/kubeflow/training-operator@v1.9.3", _TRAINING, (*_ROLES, _POLICY, "spec.elasticPolicy.minReplicas")
    ),
    Source(
        "github.com/kubeflow/mpi-operator@v0.6.0",
        ("manifests/base/kubeflow.org_mpijobs.yaml",),
        (*_ROLES, _POLICY, "spec.launcherCreationPolicy"),
    ),
    Source(
        "github.com/kubeflow/trainer/v2@v2.1.0",
        ("manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",),
        ("spec.runtimeRef", "spec.trainer.numNodes"),
    ),
    Source(
        "github.com/ray-project/kuberay/ray-operator@v1.5.1",
        tuple(f"config/crd/bases/ray.io_{kind}s.yaml" for kind in ("raycluster", "rayjob", "rayservice")),
        (*_RAY, "spec.clusterSelector.*"),
        ("v1",),
    ),
    Source(
        "github.com/argoproj/argo-workflows/v3@v3.7.4",
        ("manifests/base/crds/full/argoproj.io_workflows.yaml",),
        ("spec.entrypoint",),
    ),
    Source(
        "knative.dev/serving@v0.47.0",
        tuple(f"config/core/300-resources/{kind}.yaml" for kind in ("service", "configuration", "revision")),
        ("spec.template.metadata.annotations",),
    ),
    Source(
        "github.com/kubeflow/spark-operator/v2@v2.3.0",
        ("config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml",),
        ("spec.executor.instances",),
    ),
)


def downloaded(module: str) -> Path:
    """Where the module's files are, after fetching it."""
    answer = subprocess.run(
        ["go", "mod", "download", "-json", module], capture_output=True, text=True, cwd="/", check=False
    )
    found = json.loads(answer.stdout or "{}")
    if "Dir" not in found:
        sys.exit(f"{module}: {found.get('Error') or answer.stderr}")
    return Path(found["Dir"])


def trimmed(definition: Schema, source: Source) -> Schema:
    spec = definition["spec"]
    served = [each for each in spec["versions"] if not source.versions or each["name"] in source.versions]
    kept = [tuple(path.split(".")) for path in source.kept]
    for version in served:
        version.pop("additionalPrinterColumns", None)
        version["schema"]["openAPIV3Schema"] = branch(version["schema"]["openAPIV3Schema"], (), kept)
    return {
        "apiVersion": definition["apiVersion"],
        "kind": definition["kind"],
        "metadata": {"name": definition["metadata"]["name"], "annotations": _approval(definition)},
        "spec": {"group": spec["group"], "names": spec["names"], "scope": spec["scope"], "versions": served},
    }


def _approval(definition: Schema) -> dict[str, str]:
    """Groups of Kubernetes' own are served only with the word of its reviewers."""
    noted = definition["metadata"].get("annotations", {})
    return {key: value for key, value in noted.items() if key.startswith("api-approved.")}


def branch(schema: Schema, path: tuple[str, ...], kept: list[tuple[str, ...]]) -> Schema:
    """The schema without what is beside the point."""
    bare = without_texts(schema)
    if len(json.dumps(bare)) <= SHORT:
        return bare
    if not any(path == each[: len(path)] for each in kept):
        return {"type": "array", "items": anything()} if bare.get("type") == "array" else anything()
    found = dict(bare)
    if "properties" in bare:
        found["properties"] = {name: branch(each, (*path, name), kept) for name, each in bare["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if isinstance(bare.get(inner), dict):
            found[inner] = branch(bare[inner], (*path, "*"), kept)
    return found


def anything() -> Schema:
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def without_texts(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_texts(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_texts(value)
        for key, value in schema.items()
        if not (key in _TEXTS and isinstance(value, str | int | float))
    }


def main() -> None:
    for source in SOURCES:
        folder = downloaded(source.module)
        for file in source.files:
            for document in yaml.safe_load_all((folder / file).read_text()):
                if document and document["kind"] == "CustomResourceDefinition":
                    text = yaml.safe_dump(trimmed(document, source), sort_keys=False, width=120)
                    target = HERE / f"{document['metadata']['name']}.yaml"
                    target.write_text(f"# {source.module}, {file}, trimmed by fetch.py\n{text}")


if __name__ == "__main__":
    main()
