"""The figures of a study, one module each with ``draw(data) -> Figure``; what they share is in ``style``."""
