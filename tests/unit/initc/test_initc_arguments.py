"""What grove-initc makes of its command line and environment."""

from __future__ import annotations

import pytest

from grove.initc.arguments import SERVICE_ACCOUNT, ArgumentsError, Parent, parse

ENVIRONMENT = {
    "POD_NAMESPACE": "team",
    "POD_GANG": "w-0",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
}


def test_parents_are_taken_in_their_order_from_both_spellings() -> None:
    task = parse(["--podcliques=w-0-router:2", "-p", "w-0-prefill-0-leader:1"], ENVIRONMENT)
    assert task.parents == (Parent("w-0-router", 2), Parent("w-0-prefill-0-leader", 1))
    assert (task.namespace, task.gang) == ("team", "w-0")


def test_inside_a_cluster_server_and_credentials_are_the_pods_own() -> None:
    task = parse(["-p", "a:1"], ENVIRONMENT)
    assert task.server == "https://10.96.0.1:443"
    assert task.token_file == f"{SERVICE_ACCOUNT}/token"
    assert task.ca_file == f"{SERVICE_ACCOUNT}/ca.crt"


def test_address_of_version_six_is_bracketed() -> None:
    assert parse(["-p", "a:1"], {**ENVIRONMENT, "KUBERNETES_SERVICE_HOST": "fd00::1"}).server == "https://[fd00::1]:443"


def test_flags_win_over_the_environment() -> None:
    flags = ["--server=http://127.0.0.1:1", "--token-file=/t", "--ca-file=/c"]
    task = parse([*flags, "-p", "a:1"], ENVIRONMENT)
    assert (task.server, task.token_file, task.ca_file) == ("http://127.0.0.1:1", "/t", "/c")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "nothing to wait for"),
        (["--podcliques=a"], "expected NAME:MINIMUM"),
        (["--podcliques=:1"], "expected NAME:MINIMUM"),
        (["--podcliques=a,b:1"], "expected NAME:MINIMUM"),
        (["--podcliques=a)&b:1"], "expected NAME:MINIMUM"),
        (["--podcliques=a:"], "a whole number of at least 1"),
        (["--podcliques=a:one"], "a whole number of at least 1"),
        (["--podcliques=a:0"], "a whole number of at least 1"),
        (["--podcliques=a:-1"], "a whole number of at least 1"),
        (["--podcliques=a:٣"], "a whole number of at least 1"),
        (["-p", "a:1", "-p", "a:2"], "'a' more than once"),
        (["--podclique=a:1"], "unrecognized arguments"),
        (["-p"], "expected one argument"),
    ],
)
def test_what_cannot_be_understood_is_refused_in_one_line(argv: list[str], said: str) -> None:
    with pytest.raises(ArgumentsError, match=said.replace("(", r"\(")) as caught:
        parse(argv, ENVIRONMENT)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("variable", sorted(ENVIRONMENT))
def test_missing_environment_is_named(variable: str) -> None:
    with pytest.raises(ArgumentsError, match=variable.removesuffix("_PORT").removesuffix("_HOST")):
        parse(["-p", "a:1"], {**ENVIRONMENT, variable: ""})
