import asyncio
import sys


async def child(*words):
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return out.decode(), process.returncode


async def main():
    code = "import os, sys; print(os.environ.get('INJECT_BOOT'), sys.argv); sys.exit(4)"
    print(await asyncio.gather(*(child(sys.executable, "-c", code, str(i)) for i in range(2))))
    process = await asyncio.create_subprocess_shell(
        f'{sys.executable} -c "print(1)"', stdout=asyncio.subprocess.PIPE
    )
    print((await process.communicate())[0])


asyncio.run(main())
