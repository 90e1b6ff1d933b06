import sys
import threading
import time


def work(name, delay):
    time.sleep(delay)
    current = threading.current_thread()
    print(name, current.name, current.daemon, threading.main_thread().is_alive(), flush=True)


threads = [threading.Thread(target=work, args=(i, 0.02 * i), name=f"T{i}") for i in range(3)]
for thread in threads:
    thread.start()
print(threading.current_thread() is threading.main_thread())
threads[0].join()


def fails():
    raise RuntimeError("in a thread")


thread = threading.Thread(target=fails, name="failing")
thread.start()
thread.join()
threading.Thread(target=work, args=("late", 0.15)).start()
print("main ends")
