"""Measurements: `make bench ARGS='pages --jobs 1000000'`. Each part runs on stores of its own and writes bench/results/<part>.json."""
