"""A TCP proxy that takes its time: proxy.py PORT LEAST_MS MOST_MS

It listens on a free port of its host, which it prints, and passes every connection on to PORT of the same host. Each
piece of data arrives a random time later, in order. An end of stream waits in the same queue.
"""

import asyncio
import random
import sys

PORT, LEAST, MOST = int(sys.argv[1]), float(sys.argv[2]) / 1000, float(sys.argv[3]) / 1000
RNG = random.Random(1)


async def pass_on(reader, writer):
    queue = asyncio.Queue(1024)

    async def deliver():
        while True:
            due, data = await queue.get()
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            if not data:
                return writer.close()
            writer.write(data)
            await writer.drain()

    delivery = asyncio.create_task(deliver())
    try:
        data = b"-"
        while data:
            data = await reader.read(65536)
            await queue.put((asyncio.get_running_loop().time() + RNG.uniform(LEAST, MOST), data))
        await delivery
    except OSError:  # one side is gone: the other is to see it
        delivery.cancel()
        writer.transport.abort()


async def serve(reader, writer):
    try:
        there = await asyncio.open_connection("127.0.0.1", PORT)
    except OSError:
        return writer.transport.abort()
    await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer), return_exceptions=True)


async def main():
    server = await asyncio.start_server(serve, "0.0.0.0", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
