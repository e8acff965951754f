"""Let interrupts reach the processes that tests start, even if pytest runs in the background."""

import signal

# A shell starts background jobs with interrupts ignored, and their child processes inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
