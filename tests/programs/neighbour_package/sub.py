from . import __name__ as package


def where():
    place = __name__, package
    return place
