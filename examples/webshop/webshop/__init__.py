"""A web shop of several processes that carries its own scheduler: no broker, no database server, no cron."""
