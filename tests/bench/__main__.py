"""Every benchmark, one after the other."""

from tests.bench import aggregation, contracts, procurement, ridge

for bench in (ridge, contracts, procurement, aggregation):
    bench.main()
