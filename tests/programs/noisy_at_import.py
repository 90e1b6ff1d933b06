print("imported now")


def answer():
    result = 42
    return result
