"""The guard stands before a later def, which it must not see."""


def first():
    return "first"


if __name__ == "__main__":
    print(first())
    try:
        second()
    except NameError as error:
        print(error)


def second():
    return "second"


print(second())
