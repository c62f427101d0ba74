"""The worker: claims due jobs, makes their calls, records every attempt."""
