import multiprocessing
import sys


def child(value):
    total = value + 1
    raise ValueError(total)


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    process = context.Process(target=child, args=(1,), name="child")
    process.start()
    process.join()
    print(process.exitcode)
