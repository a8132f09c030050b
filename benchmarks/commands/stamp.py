"""What a launcher runs to tell when its command began: the time, and nothing else."""

import time

print(f"began {time.time():.6f}", flush=True)
