"""Stands for your program: one process of it runs for each key, and SIGTERM ends it."""

import os
import signal
import sys

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
print(f"serving {os.environ['TENURE_KEY']} under token {os.environ['TENURE_TOKEN']}")
signal.pause()
