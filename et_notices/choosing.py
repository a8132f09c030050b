"""In which cloud a node is.

polling.py asks by the node's providerID, cli.py by name. Where none is known the answer is "", and
nothing is asked of anybody: a guess would send questions to a stranger's address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from et_notices.clouds.alibaba import Alibaba
from et_notices.clouds.aws import Aws
from et_notices.clouds.azure import Azure
from et_notices.clouds.gcp import Gcp
from et_notices.clouds.tencent import Tencent
from et_notices.questions import Cloud

CLOUDS: Mapping[str, Callable[[], Cloud]] = {
    "aws": Aws,
    "gcp": Gcp,
    "azure": Azure,
    "alibaba": Alibaba,
    "tencent": Tencent,
}
"""By the name that a setting can have."""
_PREFIXES = {
    "aws://": "aws",
    "gce://": "gcp",
    "azure://": "azure",
    "alicloud://": "alibaba",
    "qcloud://": "tencent",
    "tencentcloud://": "tencent",
}
_ALIBABA = re.compile(r"[a-z]+(-[a-z0-9]+)+\.i-[a-z0-9]+")
"""Region and instance, without a scheme: as its cloud controller writes it."""


def find_cloud(provider_id: str) -> str:
    """The name in CLOUDS for a node's `spec.providerID`; "" for none that is known."""
    for prefix, name in _PREFIXES.items():
        if provider_id.startswith(prefix):
            return name
    return "alibaba" if _ALIBABA.fullmatch(provider_id) else ""
