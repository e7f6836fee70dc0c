/* The tracepoints: a span is two of them, the integer attribute on the first. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./points.h"

#if !defined(BENCH_POINTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_POINTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(bench, begin, LTTNG_UST_TP_ARGS(uint64_t, rows),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, rows, rows)))
LTTNG_UST_TRACEPOINT_EVENT(bench, end, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_EVENT(bench, point, LTTNG_UST_TP_ARGS(uint64_t, rows),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, rows, rows)))

#endif
#include <lttng/tracepoint-event.h>
