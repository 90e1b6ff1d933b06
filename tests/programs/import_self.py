"""A script imported by what it imports: two modules, two lives."""
import sys

print("running", __name__)
counter = []


def add(x):
    counter.append(x)
    return len(counter)


if __name__ == "__main__":
    import import_self

    print(import_self.add is add, import_self.add(1), add(2), add(3))
    print(sorted(name for name in sys.modules if "import_self" in name))
