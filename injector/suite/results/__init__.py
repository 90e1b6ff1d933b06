"""The results of a suite: read, validated, scored, reported."""
