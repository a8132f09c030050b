"""Structured logs: one JSON object a line for machines, or columns for a terminal.

Set once, by running.py or by a program's assembly, before anything is logged; nothing else
configures a logger. The broker, which starts without structlog, writes the same by hand.
"""

from __future__ import annotations

import logging

import structlog


def configure_logging(form: str, level: str) -> None:
    """Set the process up once. `form` is json or console; `level` as in the flags."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        cache_logger_on_first_use=True,
    )
