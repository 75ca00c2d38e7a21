"""The HTTP API as values: its structs, enumerations and operations, which server, SDK and command line share."""
