"""What a suite's runs came to: read, validated, scored, reported."""
