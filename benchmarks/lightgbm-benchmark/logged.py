"""What lightgbm-benchmark's scripts log of work that no Python does: their metrics and properties."""

PARTS = 20
"""Rates that the queries of a run make: as many of them after each other as are in each part."""
SIZES = ("inference_data_length", "inference_data_width")
"""Properties there, and metrics of data here."""


def instrument_metrics(ov):
    def kept(kwargs):
        sizes = {name: float(kwargs[name]) for name in SIZES if name in kwargs}
        ov.log({"task": "logged", "properties": kwargs, **sizes})

    logger = "/common.metrics/MetricsLogger"
    ov.value(f"{logger}/log_metric", task="logged", get=lambda key, value: {key: float(value)})
    ov.value(f"{logger}/set_properties", get=lambda kwargs: kept(kwargs))


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
