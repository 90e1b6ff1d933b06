HELP = "from the folder"


def fail():
    value = 1
    raise ValueError(value)
