"""The names of all that a PodCliqueSet becomes. They are composed here and never taken apart: labels say who is who."""


def replica(set_name: str, index: int) -> str:
    """The stem of one PodCliqueSet replica; its headless Service and its base PodGang carry exactly this name."""
    return f"{set_name}-{index}"


def standalone_clique(set_name: str, index: int, clique: str) -> str:
    return f"{set_name}-{index}-{clique}"


def scaling_group(set_name: str, index: int, group: str) -> str:
    return f"{set_name}-{index}-{group}"


def group_replica(set_name: str, index: int, group: str, group_index: int) -> str:
    """One replica of a scaling group; a scaled PodGang and a topology group carry this name."""
    return f"{set_name}-{index}-{group}-{group_index}"


def member_clique(group_name: str, group_index: int, clique: str) -> str:
    """A clique inside a scaling group, from the group's full name."""
    return f"{group_name}-{group_index}-{clique}"


def pod(clique_name: str, index: int) -> str:
    """A pod's name and hostname. It carries the index, so that a repeated create after a crash cannot make two."""
    return f"{clique_name}-{index}"


def service_account(set_name: str) -> str:
    return set_name


def role(set_name: str) -> str:
    return f"grove.io:pcs:{set_name}"


def service_domain(set_name: str, index: int, namespace: str) -> str:
    return f"{replica(set_name, index)}.{namespace}.svc.cluster.local"


def topology_group(group_name: str, group_index: int) -> str:
    """A topology group inside a PodGang. Admission keeps clique names from producing the same string."""
    return f"{group_name}-{group_index}"
