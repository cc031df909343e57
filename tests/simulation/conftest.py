"""Simulations are silent: thousands of runs with broken connections would log thousands of warnings."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> range:
    """The seeds of a fault campaign; `--seeds N` sets how many."""
    return range(request.config.getoption("--seeds"))
