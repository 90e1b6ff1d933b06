from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
import multiprocessing
import sys


def square(x):
    y = x * x
    return y


def bad(x):
    raise KeyError(x)


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1] if len(sys.argv) > 1 else "fork")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        print(list(pool.map(square, range(5))))
        try:
            pool.submit(bad, 1).result()
        except KeyError as error:
            print(repr(error), "_RemoteTraceback" in str(type(error.__cause__)))
            print(str(error.__cause__))
    with ThreadPoolExecutor(2) as pool:
        print(list(pool.map(square, range(5))))
