import asyncio
import contextvars

var = contextvars.ContextVar("var", default="unset")


async def worker(name, queue):
    while True:
        item = await queue.get()
        if item is None:
            return name
        var.set(item)
        result = item * 2
        await asyncio.sleep(0)
        print(name, result, var.get())


async def agen(n):
    for i in range(n):
        yield i
        await asyncio.sleep(0)


async def main():
    queue = asyncio.Queue()
    for i in [1, 2, None]:
        queue.put_nowait(i)
    print(await asyncio.gather(worker("w", queue)), [x async for x in agen(3)])
    async with asyncio.Lock() as lock:
        print(lock)
    try:
        await asyncio.wait_for(asyncio.sleep(5), 0.01)
    except asyncio.TimeoutError as error:
        print(repr(error))
    raise ValueError("out of async")


print(var.get())
asyncio.run(main())
