"""What an administrator decides: the OperatorConfiguration, its defaults and its checks. `load` alone reads a file."""

from grove.config.checks import ConfigurationError, order_warning, parse, without_effect
from grove.config.model import OperatorConfiguration

__all__ = ["ConfigurationError", "OperatorConfiguration", "order_warning", "parse", "without_effect"]
