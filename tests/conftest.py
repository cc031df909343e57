"""Options of the whole suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=2000, help="how many seeds each fault campaign runs")
    parser.addoption("--kubeconfig", default="", help="run conformance against this cluster instead of a new one")
