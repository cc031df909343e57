"""AdmissionReview in, admission rules, answer out."""

from grove.webhooks.handlers import Surroundings
from grove.webhooks.router import Router

__all__ = ["Router", "Surroundings"]
