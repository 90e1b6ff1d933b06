"""Finds its own functions by scanning what the module holds."""
before = list(globals())


def command_train(x):
    loss = x + 1
    return loss


def command_test():
    return 0


class Config:
    lr = 0.1


print(before)
print(sorted(globals()), list(globals()))
print([name for name, value in globals().items() if callable(value)])
print(dir(), vars() is globals(), locals() is globals())
print(command_train(1), sorted(vars(Config)))
