import sys
import zipfile
import zipimport

with zipfile.ZipFile("made.zip", "w") as archive:
    archive.writestr(zipfile.ZipInfo("inside.py"), "import sys\ndef f(x):\n    y = x + 1\n    return y\nZ = f(1)\n")
    archive.writestr(zipfile.ZipInfo("pack/__init__.py"), "from .leaf import LEAF\n")
    archive.writestr(zipfile.ZipInfo("pack/leaf.py"), "LEAF = __name__\n")
    archive.writestr(zipfile.ZipInfo("wrong.py"), "def f():\n    raise ValueError(1)\nf()\n")
sys.path.insert(0, "made.zip")
import inside
import pack

print(inside.f(2), inside.__file__, type(inside.__loader__) is zipimport.zipimporter, pack.LEAF)
import wrong
