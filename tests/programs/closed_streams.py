import sys

how = sys.argv[1]
print("before", flush=True)
if how == "stdout":
    sys.stdout.close()
elif how == "stderr":
    sys.stderr.close()
    raise ValueError("not seen")
elif how == "none":
    sys.stdout = sys.stderr = None
    raise ValueError("not seen either")
