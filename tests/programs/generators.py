def counter(n):
    got = None
    try:
        while n:
            got = yield n, got
            n -= 1
    finally:
        print("closed", n)
    return "done"


def delegating():
    result = yield from counter(2)
    print("result", result)
    yield result


generator = delegating()
print(next(generator), generator.send("a"), generator.send("b"))
half = counter(5)
next(half)
try:
    half.throw(ValueError("thrown"))
except ValueError as error:
    print(repr(error), error.__traceback__.tb_next.tb_lineno)
kept = counter(3)
next(kept)
print([x for x, _ in counter(2)], {k: v for k, v in counter(1)}, sum(x for x, _ in counter(3)))
a, *b = (i * i for i in range(4))
print(a, b, (lambda *c, **d: (c, d))(*b, e=a))
