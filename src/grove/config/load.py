"""Reads the configuration file: the only place where configuration meets a disk."""

from __future__ import annotations

from pathlib import Path

import yaml

from grove.config.checks import ConfigurationError, parse
from grove.config.model import OperatorConfiguration


def load(path: str | Path) -> OperatorConfiguration:
    """The configuration in a file; ConfigurationError with one message when it cannot be used."""
    try:
        document = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    try:
        return parse(document)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
