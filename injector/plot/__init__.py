"""Charts of runs and suites: any figure over any other, as PNG, SVG, HTML or text."""
