"""Reads the logs of the Deep Learning Benchmarking Suite, and writes runs of them."""

from .logs import PARAMETERS, BenchmarkLog, logs_in, read_log
from .runs import ingest

__all__ = ["PARAMETERS", "BenchmarkLog", "ingest", "logs_in", "read_log"]
