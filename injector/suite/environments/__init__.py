"""What benchmarks run in and on: sources, installed packages, prepared data."""
