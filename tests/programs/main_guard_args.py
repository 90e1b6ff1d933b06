def main(argv=None):
    import sys

    values = sys.argv[1:] if argv is None else argv
    total = 0
    for value in values:
        total += int(value)
    print(total)
    return total % 256


if __name__ == "__main__":
    import sys

    sys.exit(main())
