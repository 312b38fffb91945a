"""To be filled."""

from __future__ import annotations

from typing import Tuple

from tare.workloads.declaration import Workload

WORKLOADS: Tuple[Workload, ...] = ()
