def tag(name):
    print("evaluated", name)
    return name


def f(x: tag("x"), y: tag("y") = 1) -> tag("return"):
    z: tag("never") = x
    return z


value: tag("module") = f(1)
bare: tag("bare")
print(__annotations__, f.__annotations__, value)
