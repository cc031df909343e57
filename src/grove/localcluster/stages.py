"""How pods of simulated nodes live: the stages that kwok plays on them.

A pod becomes Ready at once, with two exceptions that annotations steer. A pod with the init container `grove-initc` is
held before Initialized until somebody who ran the waiting program for real sets INITC_FINISHED; and CRASH puts a pod
into a crash loop until it is removed. One jq expression names the transition that is due, `<is>><wanted>`, and every
stage answers to some of these names, so that no pod ever matches two stages.

A pod is ended by a delete without grace, and kwok deletes by name: whatever has that name by then. The API server tells
of that very delete once more before the pod is gone, so a pod that has no grace left matches no stage. Otherwise a
second delete would meet the pod that was made in its place.
"""

from __future__ import annotations

import json
from typing import Any

INIT_CONTAINER = "grove-initc"
INITC_FINISHED = "local.grove.io/initc-finished"
CRASH = "local.grove.io/crash"

_TRANSITION = f"""
(.metadata.annotations // {{}}) as $notes
| [.spec.initContainers[]?.name] as $init
| (if .status.phase == "Succeeded" or .status.phase == "Failed" then "done"
   elif .status.podIP == null then "new"
   elif any(.status.conditions[]?; .type == "Initialized" and .status == "False") then "held"
   elif any(.status.containerStatuses[]?; .state.waiting.reason == "CrashLoopBackOff") then "crashed"
   else "running" end) as $is
| (if ($is == "new" or $is == "held") and ($init | index("{INIT_CONTAINER}")) and $notes["{INITC_FINISHED}"] != "true"
   then "held"
   elif $notes["{CRASH}"] == "true" then "crashed"
   elif $is == "running" and any(.metadata.ownerReferences[]?; .kind == "Job") then "done"
   else "running" end) as $wanted
| if .metadata.deletionTimestamp == null then "\\($is)>\\($wanted)"
  elif .metadata.deletionGracePeriodSeconds == 0 then "deleted"
  else "deleting" end
"""

_ADDRESSES = """
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ if .status.podIP }}{{ .status.podIP | Quote }}{{ else }}{{ PodIPWith .spec.nodeName
  (or .spec.hostNetwork false) .metadata.uid .metadata.name .metadata.namespace | Quote }}{{ end }}
startTime: {{ or .status.startTime Now | Quote }}
"""

# Expects a container of the spec as the dot; leaves its restarts so far in $restarts.
_RESTARTS = """{{- $name := .name }}{{ $restarts := 0 }}
{{- range $.status.containerStatuses }}{{ if eq .name $name }}{{ $restarts = int .restartCount }}{{ end }}{{ end }}"""

_FINISHED_INIT_CONTAINERS = """
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  restartCount: 0
  {{ if eq (or .restartPolicy "") "Always" }}
  started: true
  state: {running: {startedAt: {{ Now | Quote }}}}
  {{ else }}
  started: false
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ Now | Quote }}, finishedAt: {{ Now | Quote }}}}
  {{ end }}
{{ end }}
"""

_HELD = f"""
phase: Pending
{_ADDRESSES}
initContainerStatuses:
{{{{ $reached := false }}}}
{{{{ range .spec.initContainers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  imageID: ""
  restartCount: 0
  {{{{ if eq .name "{INIT_CONTAINER}" }}}}{{{{ $reached = true }}}}
  ready: false
  started: true
  state: {{running: {{startedAt: {{{{ Now | Quote }}}}}}}}
  {{{{ else if $reached }}}}
  ready: false
  started: false
  state: {{waiting: {{reason: PodInitializing}}}}
  {{{{ else }}}}
  ready: true
  started: false
  state: {{terminated: {{exitCode: 0, reason: Completed, startedAt: {{{{ Now | Quote }}}},
    finishedAt: {{{{ Now | Quote }}}}}}}}
  {{{{ end }}}}
{{{{ end }}}}
containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state: {{waiting: {{reason: PodInitializing}}}}
{{{{ end }}}}
"""

_RUNNING = f"""
phase: Running
{_ADDRESSES}
{_FINISHED_INIT_CONTAINERS}
containerStatuses:
{{{{ range .spec.containers }}}}{_RESTARTS}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  imageID: ""
  ready: true
  started: true
  restartCount: {{{{ $restarts }}}}
  state: {{running: {{startedAt: {{{{ Now | Quote }}}}}}}}
{{{{ end }}}}
"""

_CRASHED = f"""
{{{{ $final := eq (or .spec.restartPolicy "Always") "Never" }}}}
phase: {{{{ if $final }}}}Failed{{{{ else }}}}Running{{{{ end }}}}
{_ADDRESSES}
{_FINISHED_INIT_CONTAINERS}
containerStatuses:
{{{{ range .spec.containers }}}}{_RESTARTS}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  imageID: ""
  ready: false
  started: false
  {{{{ if $final }}}}
  restartCount: {{{{ $restarts }}}}
  state: {{terminated: {{exitCode: 1, reason: Error, startedAt: {{{{ Now | Quote }}}},
    finishedAt: {{{{ Now | Quote }}}}}}}}
  {{{{ else }}}}
  restartCount: {{{{ add1 $restarts }}}}
  state: {{waiting: {{reason: CrashLoopBackOff, message: "back-off restarting failed container"}}}}
  lastState: {{terminated: {{exitCode: 1, reason: Error, startedAt: {{{{ Now | Quote }}}},
    finishedAt: {{{{ Now | Quote }}}}}}}}
  {{{{ end }}}}
{{{{ end }}}}
"""

_COMPLETED = f"""
phase: Succeeded
containerStatuses:
{{{{ range .spec.containers }}}}{_RESTARTS}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  imageID: ""
  ready: false
  started: false
  restartCount: {{{{ $restarts }}}}
  state: {{terminated: {{exitCode: 0, reason: Completed, startedAt: {{{{ Now | Quote }}}},
    finishedAt: {{{{ Now | Quote }}}}}}}}
{{{{ end }}}}
"""


def _conditions(initialized: bool, ready: bool, reason: str = "") -> str:
    """The conditions of a pod in one state; readiness gates follow Ready, since nobody else sets them here."""
    states = {"PodReadyToStartContainers": True, "Initialized": initialized, "ContainersReady": ready, "Ready": ready}
    lines = ["conditions:"]
    lines += [_condition(kind, value, reason) for kind, value in states.items()]
    if ready:
        gate = _condition("%s", True, "").replace('"%s"', "{{ .conditionType | Quote }}")
        lines += ["{{ range .spec.readinessGates }}", gate, "{{ end }}"]
    return "\n".join(lines)


def _condition(kind: str, value: bool, reason: str) -> str:
    # An empty reason is written too: it takes back the reason of the state before.
    return (
        f'- {{type: "{kind}", status: "{value}", reason: "{"" if value else reason}", '
        "lastTransitionTime: {{ Now | Quote }}}"
    )


def _stage(name: str, transitions: list[str], following: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": [{"key": _TRANSITION, "operator": "In", "values": transitions}]},
            "next": following,
        },
    }


def pod_stages() -> list[dict[str, Any]]:
    """Every stage of a pod. A pod that has reached what it should be matches none."""
    held = _conditions(initialized=False, ready=False, reason="ContainersNotInitialized")
    running = _conditions(initialized=True, ready=True)
    crashed = _conditions(initialized=True, ready=False, reason="ContainersNotReady")
    completed = _conditions(initialized=True, ready=False, reason="PodCompleted")
    return [
        _stage("pod-held", ["new>held"], {"statusTemplate": held + _HELD}),
        _stage(
            "pod-running", ["new>running", "held>running", "crashed>running"], {"statusTemplate": running + _RUNNING}
        ),
        _stage(
            "pod-crashed", ["new>crashed", "held>crashed", "running>crashed"], {"statusTemplate": crashed + _CRASHED}
        ),
        _stage("pod-completed", ["running>done"], {"statusTemplate": completed + _COMPLETED}),
        # Finalizers stay: whoever set one waits for its own turn, as with a real kubelet.
        _stage("pod-deleted", ["deleting"], {"delete": True}),
    ]


def kwok_configuration() -> str:
    """The configuration file of kwok; node stages are kwok's own."""
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {"podPlayStageParallelism": 16, "nodeLeaseParallelism": 8},
    }
    return "\n---\n".join(json.dumps(document, indent=2) for document in (options, *pod_stages())) + "\n"
