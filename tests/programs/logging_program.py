import logging
import logging.handlers
import sys

logging.basicConfig(format="%(levelname)s %(name)s %(module)s %(funcName)s %(lineno)d %(message)s")
log = logging.getLogger(__name__)


def work(x):
    total = x + 1
    log.warning("total %d", total)
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("failed")
    log.warning("from here", stack_info=True, stacklevel=1)


work(1)
logging.getLogger("quiet").info("not shown")
logging.getLogger().handlers[0].setLevel(logging.ERROR)
log.error("process %s thread %s", logging.LogRecord("n", 1, "p", 1, "m", (), None).processName, 1)
