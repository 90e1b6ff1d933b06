import code
import sys

space = {}
exec("def f(x):\n    y = x + 1\n    return y\nz = f(1)", space)
print(space["z"], eval("[i * z for i in range(3)]", space), space["f"].__code__.co_filename)
exec("new = 1\nprint(sorted(k for k in globals() if k == 'new'))")
print(new, compile("1 + 1", "<text>", "eval").co_filename)
console = code.InteractiveInterpreter({})
console.runsource("1 / 0")
eval("undefined_name + 1")
