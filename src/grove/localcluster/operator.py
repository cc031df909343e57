"""Grove itself on the local cluster: what the API server is given for it, and the operator's configuration.

Everything comes from deploy/, the same files a real cluster gets. One thing differs: the operator is a process on this
machine and not behind a Service, so the webhooks are addressed by URL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grove.localcluster import manifests
from grove.localcluster.bootstrap import install_definitions
from grove.localcluster.components import OPERATOR_HEALTH, OPERATOR_METRICS, OPERATOR_WEBHOOKS
from grove.localcluster.errors import LocalClusterError
from grove.localcluster.nodes import BLOCK_LABEL, HOST_LABEL, RACK_LABEL, ZONE_LABEL
from grove.localcluster.ports import LOOPBACK
from grove.localcluster.rest import ApiServer, Document
from grove.localcluster.spec import ClusterFiles, ClusterSpec, Scheduler

_OURS = "local.grove.io/installed"
_OPTIONAL = {"authorizer-webhook": "authorizer", "mnnvl-webhook": "mnnvl"}  # by the section that switches them on
_WEBHOOK_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def install(api: ApiServer, configuration: Mapping[str, Any], webhook_port: int) -> None:
    """Definitions, rights and webhooks. The operator itself fills in which authority signs its certificate."""
    install_definitions(api, manifests.documents("crds/*.yaml"))
    rights = manifests.documents("rbac/*.yaml")
    # A namespace comes before what lives in it; several files may name the same one.
    first = [document for document in rights if document["kind"] == "Namespace"]
    for batch in (first, [document for document in rights if document["kind"] != "Namespace"]):
        api.each(lambda document: api.apply(manifests.rest_path(document), document), batch)
    wanted = [local_webhooks(document, webhook_port) for document in webhooks_for(configuration)]
    remove_webhooks(api, keep={document["metadata"]["name"] for document in wanted})
    api.each(lambda document: api.apply(manifests.rest_path(document), document), wanted)


def webhooks_for(configuration: Mapping[str, Any]) -> list[Document]:
    """The webhooks of deploy/ but for those of features that are not switched on: they would only cost."""

    def wanted(document: Document) -> bool:
        section = _OPTIONAL.get(document["metadata"]["name"])
        return section is None or bool((configuration.get(section) or {}).get("enabled"))

    return [document for document in manifests.documents("webhooks.yaml") if wanted(document)]


def remove_webhooks(api: ApiServer, keep: set[str] | None = None) -> None:
    """Take back webhooks of an earlier start: without an operator behind them they refuse everything."""
    for kind in _WEBHOOK_KINDS:
        for one in api.get(f"{_ADMISSION}/{kind}")["items"]:
            metadata = one["metadata"]
            if _OURS in (metadata.get("annotations") or {}) and metadata["name"] not in (keep or ()):
                api.delete(f"{_ADMISSION}/{kind}/{metadata['name']}")


def local_webhooks(document: Document, port: int) -> Document:
    """The webhook configuration with every webhook at the same path of the operator on this machine."""
    metadata = {**document["metadata"]}
    metadata["annotations"] = {**metadata.get("annotations", {}), _OURS: "true"}
    webhooks = [
        {**one, "clientConfig": {"url": f"https://{LOOPBACK}:{port}{one['clientConfig']['service']['path']}"}}
        for one in document["webhooks"]
    ]
    return {**document, "metadata": metadata, "webhooks": webhooks}


def operator_configuration(spec: ClusterSpec, ports: Mapping[str, int]) -> Document:
    """The operator's configuration: the user's file over what fits this cluster; where it listens is not the file's."""
    schedulers = ["default-scheduler", "kai-scheduler"] if spec.scheduler is Scheduler.KAI else ["default-scheduler"]
    levels = {"zone": ZONE_LABEL, "block": BLOCK_LABEL, "rack": RACK_LABEL, "host": HOST_LABEL}
    fitting: Document = {
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        "logFormat": "text",
        "leaderElection": {"enabled": False},
        "topology": {"enabled": True, "levels": [{"domain": domain, "key": key} for domain, key in levels.items()]},
        "scheduler": {"profiles": [{"name": name} for name in schedulers]},
    }
    listening = {
        "webhooks": {"bindAddress": LOOPBACK, "port": ports[OPERATOR_WEBHOOKS]},
        "healthProbes": {"enable": True, "bindAddress": LOOPBACK, "port": ports[OPERATOR_HEALTH]},
        "metrics": {"bindAddress": LOOPBACK, "port": ports[OPERATOR_METRICS]},
    }
    given = _read(spec.operator_config) if spec.operator_config else {}
    return _laid_over(_laid_over(fitting, given), {"server": listening})


def write_operator_configuration(files: ClusterFiles, spec: ClusterSpec, ports: Mapping[str, int]) -> Document:
    """Write the configuration where the operator reads it. JSON, which every YAML reader takes."""
    configuration = operator_configuration(spec, ports)
    files.operator_configuration.write_text(json.dumps(configuration, indent=2) + "\n")
    return configuration


def _read(path: Path) -> Document:
    import yaml

    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise LocalClusterError(f"the operator's configuration cannot be read: {error}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise LocalClusterError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if content is not None and not isinstance(content, dict):
        raise LocalClusterError(f"{path} holds no operator configuration")
    return content or {}


def _laid_over(below: Document, above: Mapping[str, Any]) -> Document:
    """Both together; where both say something the upper one counts. Lists are taken whole."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _laid_over(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged
