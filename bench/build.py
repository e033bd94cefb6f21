"""Part `build` of bench/run: a Dockerfile of ten steps, cold and with every layer there."""
import statistics
import time

DOCKERFILE = """FROM base
USER root
WORKDIR /app
COPY files files
RUN ls files | wc -l > count
RUN mkdir data && head -c 1000000 /dev/zero > data/zeros
ENV MODE=bench
RUN echo $MODE > mode && rm data/zeros
COPY files/f1 /etc/f1
CMD ["cat", "count"]
"""


def once(place, context, *flags):
    start = time.monotonic()
    place.cove("image", "build", "-q", "-t", "bench-built", *flags, str(context))
    return (time.monotonic() - start) * 1000


def bench(report, place, scale, table, work):
    context = work / "context"
    (context / "files").mkdir(parents=True, exist_ok=True)
    (context / "Dockerfile").write_text(DOCKERFILE)
    for i in range(100):
        (context / f"files/f{i}").write_text("x" * 1000 * (i % 10))
    cold = [once(place, context, "--no-cache") for _ in range(max(3, scale(10)))]
    cached = [once(place, context) for _ in range(max(5, scale(40)))]
    place.cove("image", "rm", "bench-built")
    rows = [[title, f"{statistics.median(v):.0f} ms", f"{max(v):.0f} ms"]
            for title, v in (("cold (`--no-cache`)", cold), ("every layer there", cached))]
    report.section("A Dockerfile of ten steps", ["Three RUN, two COPY (100 files, 450 KB) and WORKDIR make layers."])
    report.lines += table(rows, "", "median", "slowest")
    median = statistics.median(cached)
    report.goal("fully cached build of ten steps", f"{median:.0f} ms (goal at most 100 ms: "
                                                   f"{'met' if median <= 100 else 'not met'})")
