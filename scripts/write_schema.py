"""Writes config/schemas/study.schema.json from the typed config: `python scripts/write_schema.py`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))

from tare.config import json_schema  # noqa: E402 (runs without an installed package)

(ROOT / "config/schemas/study.schema.json").write_text(json_schema(), encoding="utf-8")
