"""multiprocessing with functions and classes of __main__, in every start method."""
import multiprocessing
import os
import sys

METHOD = sys.argv[1] if len(sys.argv) > 1 else "fork"
print("top", __name__, METHOD) if __name__ == "__main__" else None


class Item:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Item({self.value})"


def work(item, queue):
    doubled = item.value * 2
    queue.put((os.getpid() != parent_pid(), Item(doubled), __name__, sys.argv[1:], bool(__spec__)))


def parent_pid():
    return int(multiprocessing.parent_process().pid)


def fails(queue):
    queue.put("failing")
    sys.exit(5)


if __name__ == "__main__":
    context = multiprocessing.get_context(METHOD)
    queue = context.Queue()
    for target, arguments in ((work, (Item(3), queue)), (fails, (queue,))):
        process = context.Process(target=target, args=arguments)
        process.start()
        print(queue.get())
        process.join()
        print(process.exitcode, process.name)
    with context.Pool(2) as pool:
        print(pool.map(abs, range(-3, 0)), sorted(pool.map(Item, [1]), key=repr))
