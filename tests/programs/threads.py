import threading
import time


def work(name, alive):
    current = threading.current_thread()
    print(name, current.name, current.daemon, threading.main_thread().is_alive() == alive)


for i in range(3):
    thread = threading.Thread(target=work, args=(i, True), name=f"T{i}")
    thread.start()
    thread.join()
print(threading.current_thread() is threading.main_thread())


def fails():
    raise RuntimeError("in a thread")


thread = threading.Thread(target=fails, name="failing")
thread.start()
thread.join()


def late():
    threading.main_thread().join()
    work("late", False)


threading.Thread(target=late).start()
print("main ends")
