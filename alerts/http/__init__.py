"""The ports of a process: metrics for scrapers, health for probes.

Starlette has the routes, requests and responses, and uvicorn with h11 speaks HTTP. Each port has
one event loop, on which an idle or slow client costs a descriptor but no thread. Litestar would
bring a dozen more packages that these ports do not need. WSGI on cheroot makes TLS handshakes in
the accepting loop, so that one silent client delays every scrape (ten seconds, tried with 11.1).
This package adds what both lack: a bound on connections, at which the slowest make room, and
access control.
"""

from alerts.http.app import PortViews
from alerts.http.config import HttpConfig
from alerts.http.server import HttpServer
from alerts.http.servers import Servers, metrics_server
from alerts.http.views import Find, HealthChecks

__all__ = [
    "Find", "HealthChecks", "HttpConfig", "HttpServer", "PortViews", "Servers",
    "metrics_server",
]  # fmt: skip
