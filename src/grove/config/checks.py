"""Turns the content of a configuration file into an OperatorConfiguration, or says in one message what is wrong.

The first problem ends the check: the operator starts with a configuration it understands wholly or not at all.
"""

from __future__ import annotations

from typing import Any

import msgspec

from grove.api import duration
from grove.api.cluster_topology import NATURAL_ORDER, TopologyLevel
from grove.api.crd.conformance import Departure, mismatches
from grove.api.crd.structural import schema_of
from grove.config.model import OperatorConfiguration, SchedulerProfile

_MOVED = {
    "topologyAwareScheduling": "say topology: {enabled, levels}",
    "network.autoMNNVLEnabled": "say mnnvl: {enabled}",
    "network": "say mnnvl: {enabled}",
}


class ConfigurationError(Exception):
    """The configuration cannot be used. The text names the field and what is allowed there."""


def parse(document: Any) -> OperatorConfiguration:
    """The configuration a document describes; ConfigurationError when it does not describe one."""
    content = _without_nulls({} if document is None else document)
    for mismatch in mismatches(content, schema_of(OperatorConfiguration)):
        raise ConfigurationError(_said(mismatch.path, mismatch.kind, mismatch.message, mismatch.value))
    configuration = _with_default_scheduler(msgspec.convert(content, OperatorConfiguration))
    problem = _problem(configuration)
    if problem:
        raise ConfigurationError(problem)
    return configuration


def order_warning(levels: list[TopologyLevel]) -> str | None:
    """What to tell the administrator when the written order contradicts the natural one; levels are used as written."""
    written = [level.domain for level in levels]
    natural = [domain for domain in NATURAL_ORDER if domain in written]
    if written == natural:
        return None
    return (
        f"topology levels are written as {' > '.join(written)}, while their names suggest {' > '.join(natural)}; "
        "the written order decides which level counts as stricter"
    )


def without_effect(configuration: OperatorConfiguration) -> list[str]:
    """The sections somebody wrote that change nothing here: they belong to the Go implementation's runtime."""
    plain = OperatorConfiguration()
    sections = {
        "runtimeClientConnection": configuration.runtime_client_connection != plain.runtime_client_connection,
        "controllers": configuration.controllers != plain.controllers,
        "debugging": configuration.debugging != plain.debugging,
    }
    return [name for name, written in sections.items() if written]


def _said(path: str, kind: Departure, message: str, value: Any) -> str:
    if kind is Departure.UNKNOWN and path in _MOVED:
        return f"{path}: not a field of this configuration; {_MOVED[path]}"
    shown = "" if kind in (Departure.REQUIRED, Departure.UNKNOWN) else f" (got {value!r})"
    return f"{path or 'configuration'}: {message}{shown}"


def _without_nulls(value: Any) -> Any:
    """A key with nothing behind it means the default."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _with_default_scheduler(configuration: OperatorConfiguration) -> OperatorConfiguration:
    """Kubernetes' own scheduler is always there, listed or not."""
    scheduler = configuration.scheduler
    if any(profile.name == "default-scheduler" for profile in scheduler.profiles):
        return configuration
    profiles = [*scheduler.profiles, SchedulerProfile(name="default-scheduler")]
    return msgspec.structs.replace(configuration, scheduler=msgspec.structs.replace(scheduler, profiles=profiles))


def _problem(configuration: OperatorConfiguration) -> str | None:
    for check in (_election_problem, _port_problem, _scheduler_problem, _topology_problem):
        if problem := check(configuration):
            return problem
    return None


def _election_problem(configuration: OperatorConfiguration) -> str | None:
    election = configuration.leader_election
    fields = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for name, text in fields.items():
        if duration.parse(text).total_seconds() <= 0:
            return f"leaderElection.{name}: must be greater than 0 (got {text!r})"
    if (
        duration.parse(election.lease_duration).total_seconds()
        <= duration.parse(election.renew_deadline).total_seconds()
    ):
        return (
            f"leaderElection.leaseDuration: must be greater than renewDeadline {election.renew_deadline} "
            f"(got {election.lease_duration!r})"
        )
    if duration.parse(election.renew_deadline).total_seconds() <= duration.parse(election.retry_period).total_seconds():
        return (
            f"leaderElection.renewDeadline: must be greater than retryPeriod {election.retry_period} "
            f"(got {election.renew_deadline!r})"
        )
    return None


def _port_problem(configuration: OperatorConfiguration) -> str | None:
    server = configuration.server
    ports = {"webhooks": server.webhooks.port, "metrics": server.metrics.port}
    if server.health_probes.enable:
        ports["healthProbes"] = server.health_probes.port
    taken: dict[int, str] = {}
    for name, port in ports.items():
        if port in taken:
            return f"server.{name}.port: must differ from server.{taken[port]}.port (got {port})"
        taken[port] = name
    return None


def _scheduler_problem(configuration: OperatorConfiguration) -> str | None:
    names = [profile.name for profile in configuration.scheduler.profiles]
    for index, name in enumerate(names):
        if name in names[:index]:
            return f"scheduler.profiles[{index}].name: must not be repeated (got {name!r})"
    default = configuration.scheduler.default_profile_name
    if default not in names:
        return f"scheduler.defaultProfileName: must be one of the profiles {', '.join(names)} (got {default!r})"
    return None


def _topology_problem(configuration: OperatorConfiguration) -> str | None:
    topology = configuration.topology
    if topology.enabled and not topology.levels:
        return "topology.levels: must have at least one level when topology is enabled"
    domains: set[str] = set()
    keys: set[str] = set()
    for index, level in enumerate(topology.levels):
        path = f"topology.levels[{index}]"
        if level.domain in domains:
            return f"{path}.domain: duplicate topology domain '{level.domain}' in configuration"
        if level.key in keys:
            return f"{path}.key: duplicate topology key '{level.key}' in configuration"
        domains.add(level.domain)
        keys.add(level.key)
    return None
