import json
import types

import atexit
import ast
import signal
import functools

print([getattr(m, "MINE", None) for m in (json, types, ast, signal, functools)])
