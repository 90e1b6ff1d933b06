"""How deep it can go tells how deep it began."""
import sys


def down(n):
    try:
        return down(n + 1)
    except RecursionError:
        return n


sys.setrecursionlimit(200)
print(down(0) > 150)
sys.setrecursionlimit(1000)


def again():
    again()


again()
