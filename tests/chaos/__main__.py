"""`python -m tests.chaos --jobs 20000 --faults 100 --seed 1`: breaks everything, and counts. Exits with 1 when a promise was broken."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import threading
import time

from tests.chaos.audit import Report, audit, wait_until_quiet
from tests.chaos.driver import Driver
from tests.chaos.faults import FAULTS, ORDERLY
from tests.chaos.fleet import Fleet

QUIET_SECONDS = 180.0
# So often another fault begins while one lasts.
MIXED_SHARE = 0.2


def run(jobs: int, faults: list[str], seed: int, scale: float, per_second: float) -> Report:
    """One run on a fleet of its own: work, faults in a random order, quiet, audit."""
    rand = random.Random(seed)
    order = rand.sample(faults, len(faults))
    fleet = Fleet.start(is_sound=set(faults) <= ORDERLY)
    try:
        driver = Driver(fleet, seed, jobs, per_second)
        driver.prepare()
        driver.start()
        began = time.monotonic()
        beside: list[threading.Thread] = []
        for place, name in enumerate(order):
            time.sleep(rand.uniform(0.2, 1.5))
            print(f"{time.monotonic() - began:7.1f} s  {name}", flush=True)
            breaking = threading.Thread(target=FAULTS[name], args=(fleet, random.Random(f"{seed}-{place}"), scale))
            breaking.start()
            beside.append(breaking)
            if rand.random() >= MIXED_SHARE:
                for each in beside:
                    each.join()
                beside.clear()
        for each in beside:
            each.join()
        driver.wait(jobs / per_second + 120)
        print(f"{time.monotonic() - began:7.1f} s  all faults are over, all jobs accepted", flush=True)
        is_quiet = wait_until_quiet(fleet, QUIET_SECONDS)
        print(f"{time.monotonic() - began:7.1f} s  {'quiet' if is_quiet else 'NOT quiet'}", flush=True)
        report = audit(fleet, driver, is_quiet)
    finally:
        fleet.stop()
    if report.wrong:
        print(f"The logs are in {fleet.folder}.")
    else:
        shutil.rmtree(fleet.folder, ignore_errors=True)
    return report


def chosen(count: int, only: list[str], seed: int) -> list[str]:
    """`count` faults, each kind about as often."""
    names = only or list(FAULTS)
    rand = random.Random(seed)
    whole = [name for _ in range(count // len(names)) for name in names]
    return whole + rand.sample(names, count % len(names))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos ARGS=…", description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--faults", type=int, default=len(FAULTS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--scale", type=float, default=1.0, help="of the length of faults that last")
    parser.add_argument("--per-second", type=float, default=40.0, help="jobs submitted a second")
    parser.add_argument("--only", choices=sorted(FAULTS), action="append", default=[], help="nothing but these faults")
    given = parser.parse_args()
    print(f"seed {given.seed}: {given.jobs} jobs, {given.faults} faults")
    report = run(given.jobs, chosen(given.faults, given.only, given.seed), given.seed, given.scale, given.per_second)
    print(report.show())
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
