import os
import sys

print(sys.path, sys.flags, sys.warnoptions, sys._xoptions)
print(sys.executable, sys.prefix == sys.base_prefix, sys.platlibdir, sys.argv)
print(sys.dont_write_bytecode, sys.pycache_prefix is None, sys.flags.isolated)
print(sys.meta_path, [type(hook).__name__ for hook in sys.path_hooks])
print(list(sys.path_importer_cache), sys.path_importer_cache.get(__file__, "absent"))
print(sys.getswitchinterval(), sys.getrecursionlimit(), sys.gettrace(), sys.getprofile())
print(sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__)
print(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)
print([name for name in ("runpy", "sitecustomize", "usercustomize", "injector.launch.site")
       if name in sys.modules])
print([name for name in os.environ if name.startswith(("INJECT_BOOT", "INJECT_PATH"))])
