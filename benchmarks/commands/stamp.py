"""What a launcher runs to tell when its command began, and when its process was started.

The latter in hundredths of a second, as the kernel counts it (/proc/self/stat, proc(5)).
"""

import os
import time

began = time.time()
words = os.read(os.open("/proc/self/stat", os.O_RDONLY), 4096).rpartition(b")")[2].split()
booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
started = booted + int(words[19]) / os.sysconf("SC_CLK_TCK")
print(f"began {began:.6f} {started:.6f}", flush=True)
