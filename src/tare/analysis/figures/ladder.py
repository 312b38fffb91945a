"""Which step costs: from the host to the container."""

from __future__ import annotations

from matplotlib.figure import Figure

from tare.analysis.figures import style
from tare.analysis.study_data import StudyData

TITLE = "Which step costs: from the host to the container"


def draw(data: StudyData) -> Figure:
    """Return the figure."""
    with style.context():
        return style.empty(
            data,
            TITLE,
            "This study has no ladder and no star of runtimes, so it cannot say which feature costs; "
            "config/presets/attribution.yaml has both.",
        )
