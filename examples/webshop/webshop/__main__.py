"""One process of the shop. `python -m webshop --help` lists the flags; README.md starts three."""

from __future__ import annotations

import argparse
from pathlib import Path

from aiohttp import web

from webshop.shop import Settings, make_app


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m webshop")
    parser.add_argument("--id", required=True, help="of this process, such as n1")
    parser.add_argument("--web", default="127.0.0.1:8001", metavar="HOST:PORT", help="where customers come")
    parser.add_argument("--http", default="127.0.0.1:7401", metavar="HOST:PORT", help="of the node's own API")
    parser.add_argument("--peers", required=True, metavar="ID=HOST:PORT,...", help="all processes' Raft addresses")
    parser.add_argument("--cluster-key-file", required=True, metavar="FILE", help="of 'raftsched keys new'")
    parser.add_argument("--data", type=Path, default=Path("data"), help="a directory that all processes see")
    parser.add_argument("--pay-within", default="15m", metavar="TIME", help="unpaid orders are cancelled then")
    parser.add_argument("--report", default="0 * * * *", metavar="CRON", help="when sales are reported")
    given = parser.parse_args()
    host, _, port = given.web.rpartition(":")
    settings = Settings(
        id=given.id,
        data=given.data.absolute(),
        peers=given.peers,
        key=given.cluster_key_file,
        http=given.http,
        pay_within=given.pay_within,
        report=given.report,
    )
    web.run_app(make_app(settings), host=host, port=int(port), print=None)


if __name__ == "__main__":
    main()
