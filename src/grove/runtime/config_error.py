"""The one way a connection's configuration can be wrong: in some file, at some field, for some reason."""

from __future__ import annotations


class ConnectionConfigError(Exception):
    """Names the file and the field so that a person can mend it."""

    def __init__(self, file: str, field: str, problem: str) -> None:
        where = f"{file}: {field}" if field else file
        super().__init__(f"{where}: {problem}")
        self.file = file
        self.field = field
        self.problem = problem
