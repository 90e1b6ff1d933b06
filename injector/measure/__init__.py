"""The fast ways to measure: values, regions, steps and loaders, without a stream in between."""
