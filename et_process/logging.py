"""Structured logs: one JSON object a line for machines, or columns for a terminal.

Set once, by running.py or by a program's assembly, before anything is logged; nothing else
configures a logger. The broker, which starts without structlog, writes the same by hand.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping

import structlog

from et_process.flags import read_one_of

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("json", "console")


def add_logging_flags(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """`--log-format` and `--log-level`, or LOG_FORMAT and LOG_LEVEL: each one of its words."""
    for flag, words, default in (
        ("--log-format", FORMATS, "json"),
        ("--log-level", LEVELS, "info"),
    ):
        name = flag.strip("-").replace("-", "_").upper()
        parser.add_argument(
            flag,
            type=read_one_of(name, words, str.lower),
            default=environ.get(name, default),
            metavar="{" + ",".join(words) + "}",
        )


def configure_logging(form: str, level: str) -> None:
    """Set the process up once. `form` is one of FORMATS, `level` one of LEVELS."""
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
