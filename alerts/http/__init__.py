"""The ports of a process: metrics for scrapers, health for probes, on a framework and a server.

Starlette has the routes, requests and responses, and uvicorn with h11 speaks HTTP: one event loop
a port, on which an idle or slow client costs a descriptor and no thread. Litestar would bring a
dozen more packages for what these ports do not need, and WSGI on cheroot makes its TLS handshakes
in the loop that accepts, so that one silent client holds up every scrape (for ten seconds, as
tried with 11.1). What is left for us is what neither has: deadlines for whatever a client may
take, a bounded number of connections, and who may read.
"""

from alerts.http.config import HttpConfig, Timeouts
from alerts.http.servers import PortViews, Servers
from alerts.http.views import Find, HealthChecks

__all__ = ["Find", "HealthChecks", "HttpConfig", "PortViews", "Servers", "Timeouts"]
