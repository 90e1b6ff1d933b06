import runpy
import sys

result = runpy.run_path("module_attributes_other.py", run_name="__main__")
print(sorted(name for name in result if not name.startswith("__")), sys.argv, __name__)
result = runpy.run_path("module_attributes_other.py")
print(result["__name__"], result["total"])
result = runpy.run_module("neighbour_package.runnable", run_name="__main__", alter_sys=True)
print(result["__name__"], result["__package__"], sys.modules["__main__"].__dict__ is globals())
runpy.run_path("broken_at_import.py")
