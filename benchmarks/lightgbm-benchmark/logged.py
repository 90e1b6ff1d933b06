"""What lightgbm-benchmark's scripts log, for those whose work is done in a process without Python."""

PARTS = 20
"""Rates that the queries of a run make: as many of them after each other as are in each part."""


def instrument_metrics(ov):
    where = "/common.metrics/MLFlowMetricsLogger/log_metric"
    ov.value(where, task="logged", get=lambda key, value: {key: float(value)})


def instrument_rates(ov):
    def rates(seconds, length, factor):
        size = max(1, len(seconds) // PARTS)
        for at in range(0, len(seconds) - size + 1, size):
            part = sum(seconds[at : at + size]) * factor / 1e6
            items = size * length
            ov.log({"task": "inference", "rate": items / part, "units": "items/s"})

    ov.value(
        "/common.metrics/MetricsLogger/log_inferencing_latencies",
        get=lambda time_per_batch, batch_length, factor_to_usecs: rates(
            time_per_batch, batch_length, factor_to_usecs
        ),
    )
