"""Status page and JSON API: stored Snapshots, for browsers and programs.

Both use the same contents (:mod:`monitor.web.contents`), so neither says more than the other. The
package knows the web framework's requests and answers, and never the store.
"""

from monitor.core.publish.limitations import Limitation
from monitor.web.pages import SiteFacts
from monitor.web.site import Site

__all__ = ["Limitation", "Site", "SiteFacts"]
