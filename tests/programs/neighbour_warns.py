import warnings

warnings.warn("at import", DeprecationWarning, stacklevel=2)
pattern = "\w"


def old_api():
    warnings.warn("old api", DeprecationWarning, stacklevel=2)
    warnings.warn("hidden", DeprecationWarning)
