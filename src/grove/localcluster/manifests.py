"""The files in deploy/: what a real cluster is given, found in a source checkout as well as in an installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grove
from grove.localcluster.errors import LocalClusterError
from grove.localcluster.rest import Document

# Kinds that deploy/ has: the path of their collection, and whether they live in a namespace.
_COLLECTIONS = {
    ("v1", "Namespace"): ("/api/v1", "namespaces", False),
    ("v1", "ServiceAccount"): ("/api/v1", "serviceaccounts", True),
    ("v1", "ConfigMap"): ("/api/v1", "configmaps", True),
    ("v1", "Service"): ("/api/v1", "services", True),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): (
        "/apis/rbac.authorization.k8s.io/v1",
        "clusterrolebindings",
        False,
    ),
    ("rbac.authorization.k8s.io/v1", "Role"): ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): (
        "/apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        False,
    ),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"): (
        "/apis/admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        False,
    ),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): (
        "/apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        False,
    ),
}


def deploy_folder() -> Path:
    """Where the files are: inside the package when it was installed from a wheel, else beside the sources."""
    package = Path(grove.__file__).parent
    for folder in (package / "deploy", package.parent.parent / "deploy"):
        if (folder / "crds").is_dir():
            return folder
    raise LocalClusterError(f"the files that describe Grove to a cluster are missing: no deploy folder near {package}")


def documents(pattern: str) -> list[Document]:
    """The documents of the files that match, in the order of the files."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = sorted(deploy_folder().glob(pattern))
    return [one for path in found for one in yaml.load_all(path.read_text("utf-8"), Loader=loader) if one]


def rest_path(document: Document) -> str:
    """Where the API server keeps this object."""
    kind = (document["apiVersion"], document["kind"])
    if kind not in _COLLECTIONS:
        raise LocalClusterError(f"deploy/ holds a {kind[1]} of {kind[0]}, which the local cluster cannot place")
    root, plural, namespaced = _COLLECTIONS[kind]
    metadata = document["metadata"]
    if namespaced:
        return f"{root}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
    return f"{root}/{plural}/{metadata['name']}"
