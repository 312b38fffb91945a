"""What your flags cost: docker with an option ÷ docker without it."""

from __future__ import annotations

from matplotlib.figure import Figure

from tare.analysis.figures import style
from tare.analysis.study_data import StudyData

TITLE = "What your flags cost: docker with an option ÷ docker without it"


def draw(data: StudyData) -> Figure:
    """Return the figure."""
    with style.context():
        return style.empty(
            data, TITLE, "This study has no options; config/presets/attribution.yaml has some."
        )
