"""The two ways in which a form of a stack can be missing; both become a status and a reason, never a traceback."""

from __future__ import annotations


class SoftwareError(Exception):
    """The form should exist and could not be made (status ``failed``); the message names cause and remedy."""


class Skipped(SoftwareError):  # noqa: N818 (a state, not an error)
    """This machine lacks what the form needs (status ``skipped``); the message names the remedy."""
