"""The `grove` command: each subcommand is a module of its own, imported only when it is used."""
