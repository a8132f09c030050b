"""The composition root: the only place that wires concrete parts, and what the process runs.

Two clients of the API server are made, one that writes and one that only tries. No cloud is asked
before a policy is known to hold what this program may write.
"""

from __future__ import annotations

from datetime import timedelta

import structlog

from et_kube import __version__
from et_kube.clock import ServerClock
from et_kube.connecting import connect
from et_kube.racing import Interrupted, run_unless
from et_kube.rest import Rest
from et_notices.asking import Ask, Asker, open_session
from et_notices.polling import Poller
from et_notices.questions import Cloud
from et_notices.settings import Settings
from et_notices.telling import MANAGER, Node
from et_process.logging import configure_logging
from et_process.supervising import stop_on_signals, supervise

STOP_GRACE = timedelta(seconds=5)

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Poll until SIGTERM or SIGINT; Unheld where no policy holds this program."""
    configure_logging(settings.log_format, settings.log_level)
    clock = ServerClock()  # what is written by it is read by others
    with stop_on_signals() as stop:
        async with connect(program="et-notices") as connection, open_session() as session:

            def reach(cloud: Cloud) -> Ask:
                return Asker(session, settings.metadata_url or cloud.address)

            writing = {"fieldManager": MANAGER}
            api = Rest(connection, writing=writing, hear=clock.hear)
            trial = Rest(connection, writing={**writing, "dryRun": "All"}, hear=clock.hear)
            node = Node(api, trial, settings.node)
            poller = Poller(node, clock, reach, cloud=settings.cloud)
            try:
                await run_unless(stop.wait(), poller.prove())
            except Interrupted:
                return
            log.info("started", version=__version__, node=settings.node)
            await supervise({"poll": poller.run}, stop=stop, clock=clock, grace=STOP_GRACE)
            log.info("stopped")
