"""A fleet of real processes, a driver that gives it work, faults that break it, and an audit that counts what came of it."""
