// dashcam: the black box of a running service, for C (C99 and later) and C++.
//
// Convert each text into a name once, with dashcam_name; then:
//
//     dashcam_setting settings[] = {{"service", "billy"}, {"slow", "500ms"}};
//     dashcam_start(settings, 2);
//     dashcam_name_t checkout = dashcam_name("GET /checkout"), user = dashcam_name("user");
//     dashcam_request request = dashcam_request_begin(checkout);
//     ...
//     dashcam_attribute attributes[] = {dashcam_integer(user, 42)};
//     dashcam_request_end(request, 0, attributes, 1);
//
// Every function may be called at any time from any thread: before dashcam_start, after
// dashcam_stop and in a forked child a call returns its code and does nothing else. Codes are
// negative for errors; no error is a reason to stop a service. Functions that may be called in a
// signal handler say so; after dlopen they may be called there only on threads that called the
// library before (the C library allocates a thread's variables at the first use). Compile with
// `pkg-config --cflags --libs dashcam`. The library remains loaded after dlclose, since its threads
// run in it.
//
// Generated from c/src by `cargo test -p dashcam-c`; do not edit.

#ifndef DASHCAM_H
#define DASHCAM_H


#include <stddef.h>
#include <stdint.h>

// Return codes of functions. Errors are negative.
typedef enum dashcam_code {
    // Done.
    DASHCAM_OK = 0,
    // Done before: `dashcam_start` while recording is on.
    DASHCAM_ALREADY = 1,
    // Nothing records: before `dashcam_start`, after `dashcam_stop`, or with `DASHCAM_ENABLED=0`.
    // No reason to stop a service: the call did nothing.
    DASHCAM_E_OFF = -1,
    // A forked child that does not record yet; see `dashcam_start`.
    DASHCAM_E_FORKED = -2,
    // A pointer that must not be NULL was NULL.
    DASHCAM_E_NULL = -3,
    // A text is not UTF-8.
    DASHCAM_E_TEXT = -4,
    // A setting is unknown or its value wrong, or there is no memory for the black box.
    DASHCAM_E_SETTING = -5,
    // The capture could not be written.
    DASHCAM_E_WRITE = -6,
    // The buffer is too small; its beginning was filled, and ends with NUL.
    DASHCAM_E_SMALL = -7,
    // A name that is not from `dashcam_name`, an attribute of no known kind, or a span, request or
    // task that is not open in this process.
    DASHCAM_E_HANDLE = -8,
    // An internal error was caught; please report it.
    DASHCAM_E_INTERNAL = -9,
} dashcam_code;

// The kind of an attribute's value.
typedef enum dashcam_kind {
    // `value.integer`
    DASHCAM_INTEGER = 0,
    // `value.number`
    DASHCAM_NUMBER = 1,
    // `value.truth`, 0 or not
    DASHCAM_TRUTH = 2,
    // `value.text`: UTF-8, at most 64 bytes are kept, of an event 512; NULL leaves the attribute
    // out
    DASHCAM_TEXT = 3,
} dashcam_kind;

// The kind of a metric.
typedef enum dashcam_metric_kind {
    // A sum of increments: dashcam_count
    DASHCAM_COUNTER = 0,
    // A value that is set and changed: dashcam_gauge_set, dashcam_gauge_add
    DASHCAM_GAUGE = 1,
    // Durations in milliseconds: dashcam_record
    DASHCAM_TIMING = 2,
    // Values: dashcam_record
    DASHCAM_HISTOGRAM = 3,
    // Values whose distribution a server computes over all hosts: dashcam_record
    DASHCAM_DISTRIBUTION = 4,
    // Distinct members: dashcam_member
    DASHCAM_SET = 5,
} dashcam_metric_kind;

// A setting: `{"slow", "500ms"}`. Names and values are those of the environment variables
// `DASHCAM_<NAME>`, which take precedence:
// enabled, service, labels, out, slow, memory, window, post, cooldown, keep, keep_bytes, rate_hz,
// budget_percent, switches, stacks, metrics_series, threads, on_error, on_metric, openmetrics,
// signal, per_day, repeat_after, decay, at_exit, hook, explain, source_lines, rollups, control,
// otlp, otlp_share, calls, propagate, otel.
typedef struct dashcam_setting {
    // Name.
    const char *name;
    // Value, a text.
    const char *value;
} dashcam_setting;

// A text as a number; from dashcam_name. 0 is none.
typedef uint32_t dashcam_name_t;

// An open span, owned by the caller; nothing is allocated. Captures show it as open until it or
// its thread ends; a span that is never ended is shown as open. All zero: none.
typedef struct dashcam_span {
    // Its begin, from dashcam_now_ns.
    uint64_t begin_ns;
    // The request it belongs to, 0 none.
    uint64_t request;
    // Its name.
    dashcam_name_t name;
    // The epoch of its recorder.
    uint32_t epoch;
    // Its place in the table of open spans.
    uint32_t place;
} dashcam_span;

// The value of an attribute.
typedef union dashcam_value {
    // DASHCAM_INTEGER
    int64_t integer;
    // DASHCAM_NUMBER
    double number;
    // DASHCAM_TRUTH
    int truth;
    // DASHCAM_TEXT
    const char *text;
} dashcam_value;

// An attribute; dashcam_integer and its siblings make one. At most 8 are recorded, the rest is
// counted in the loss attributes_cut.
typedef struct dashcam_attribute {
    // From dashcam_name.
    dashcam_name_t key;
    // One of dashcam_kind.
    int kind;
    // The value.
    union dashcam_value value;
} dashcam_attribute;

// An open request, owned by the caller, to be ended once.
typedef struct dashcam_request {
    // Unique in this process, 0 none. For dashcam_task_begin.
    uint64_t id;
    // When it began.
    uint64_t begin_ns;
    // The request that this thread worked for before.
    uint64_t outer;
    // Its name.
    dashcam_name_t name;
    // The epoch of its recorder.
    uint32_t epoch;
} dashcam_request;

// Work for a request on another thread than its own.
typedef struct dashcam_task {
    // The request.
    uint64_t request;
    // When the work was handed over.
    uint64_t queued_ns;
    // When it began.
    uint64_t begin_ns;
    // The request that this thread worked for before.
    uint64_t outer;
    // Its name.
    dashcam_name_t name;
    // The epoch of its recorder.
    uint32_t epoch;
} dashcam_task;

// A series of a metric as a number; from dashcam_metric. 0 is none.
typedef uint32_t dashcam_metric_t;

// A tag of a metric: texts in UTF-8, of at most 255 bytes each.
typedef struct dashcam_tag {
    // Its key.
    const char *key;
    // Its value; "" for a tag that has none.
    const char *value;
} dashcam_tag;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Starts recording with `count` settings (NULL and 0: the environment and the defaults). Starts
// three threads that block all signals, and removes the black box when the process exits normally.
//
// A forked child does not record until it calls one of dashcam_start, dashcam_name,
// dashcam_thread_name, dashcam_request_begin, dashcam_task_begin, dashcam_snap or dashcam_status,
// and then with its parent's settings unless it gives its own here. Names remain valid in it.
//
// Cost: milliseconds; locks and allocates. Not in a signal handler. Returns DASHCAM_OK,
// DASHCAM_ALREADY, DASHCAM_E_OFF (turned off by DASHCAM_ENABLED), DASHCAM_E_NULL, DASHCAM_E_TEXT,
// DASHCAM_E_SETTING.
int dashcam_start(const struct dashcam_setting *settings, size_t count);

// Stops recording and waits for the library's threads, at most two seconds; writes a capture that
// was due. The recording remains in the black box; a later dashcam_start continues it. Not in a
// signal handler. Returns DASHCAM_OK, also when nothing records.
int dashcam_stop(void);

// Saves a capture now and waits for it (tens of milliseconds; at most 30 s). `reason` may be NULL.
// The path is copied into `path` (NULL: not wanted) of `size` bytes. Locks, allocates, writes. Not
// in a signal handler. Returns DASHCAM_OK, DASHCAM_E_OFF, DASHCAM_E_TEXT, DASHCAM_E_WRITE, and
// DASHCAM_E_SMALL when the capture was written and its path was cut.
int dashcam_snap(const char *reason, char *path, size_t size);

// The state as JSON (settings, sources, losses, own cost, captures), ended by NUL. `{"on":false}`
// when nothing records. 4096 bytes are enough for a few captures. Locks and allocates. Not in a
// signal handler. Returns DASHCAM_OK, DASHCAM_E_NULL, DASHCAM_E_SMALL.
int dashcam_status(char *buffer, size_t size);

// Gives the calling thread its name in captures. Locks and allocates. Not in a signal handler.
// Returns DASHCAM_OK, DASHCAM_E_OFF, DASHCAM_E_NULL, DASHCAM_E_TEXT.
int dashcam_thread_name(const char *name);

// The error text of the last call of this thread that failed, in English; "" when none did. Valid
// until its next call that fails; never NULL. Async-signal-safe.
const char *dashcam_last_error(void);

// Nanoseconds of the recorder's clock, CLOCK_MONOTONIC. Async-signal-safe, 10-25 ns.
uint64_t dashcam_now_ns(void);

// The number of a text (UTF-8; at most 1000 bytes count), for names and keys: equal texts have the
// same number for the life of the process, also before dashcam_start, after dashcam_stop and in
// forked children. Call it once for each text and keep the number: it locks and allocates when the
// text is new, and a process has 8192 of them. Not in a signal handler. Returns 0 on an error
// (NULL, not UTF-8, too many); dashcam_last_error gives the reason.
dashcam_name_t dashcam_name(const char *name);

// Begins a span of this thread's request. All zero when nothing records, and dashcam_span_end then
// returns DASHCAM_E_OFF or DASHCAM_E_FORKED. Cost: one clock read; no lock, allocation or syscall.
// Async-signal-safe.
struct dashcam_span dashcam_span_begin(dashcam_name_t name);

// Ends a span and records it, on the calling thread, as failed when `failed` is not 0, with
// `count` attributes (NULL and 0: none). Cost: one clock read and one append; no lock, allocation
// or syscall after the thread's first record. Async-signal-safe. Returns DASHCAM_OK,
// DASHCAM_E_OFF, DASHCAM_E_FORKED, DASHCAM_E_NULL, DASHCAM_E_TEXT, DASHCAM_E_HANDLE (begun before
// a fork, or by another recorder); then nothing is recorded.
int dashcam_span_end(struct dashcam_span span,
                     int failed,
                     const struct dashcam_attribute *attributes,
                     size_t count);

// Records an event of this thread's request. Cost and errors as dashcam_span_end.
// Async-signal-safe.
int dashcam_event(dashcam_name_t name, const struct dashcam_attribute *attributes, size_t count);

// Begins a request, whose latency is judged (setting `slow`). Spans and events of this thread
// belong to it until dashcam_request_end; requests nest. All zero when nothing records or the name
// is invalid. Cost: a clock read, a slot in a table of 4095, one append; the first request of a
// name also locks and allocates. Not in a signal handler.
struct dashcam_request dashcam_request_begin(dashcam_name_t name);

// Ends a request, on any thread, as failed when `failed` is not 0, with `count` attributes. Cost
// and errors as dashcam_span_end; DASHCAM_E_HANDLE also for a request that was ended before.
int dashcam_request_end(struct dashcam_request request,
                        int failed,
                        const struct dashcam_attribute *attributes,
                        size_t count);

// Makes an open request part of its caller's trace, given by the header `traceparent` of W3C Trace
// Context; `tracestate` may be NULL. Writes one record; allocates and locks for a `tracestate`
// only. Not in a signal handler. Returns DASHCAM_OK, DASHCAM_E_NULL, DASHCAM_E_TEXT, and
// DASHCAM_E_HANDLE when there is no such request or the header is not valid: then the request
// begins a trace of its own.
int dashcam_request_continue(struct dashcam_request request,
                             const char *traceparent,
                             const char *tracestate);

// Writes the header `traceparent` for calls that this thread makes now into `buffer` of `size`
// bytes; 56 are enough. Empty outside of requests and spans. Allocates. Not in a signal handler.
// Returns DASHCAM_OK, DASHCAM_E_OFF, DASHCAM_E_FORKED, DASHCAM_E_NULL, DASHCAM_E_SMALL.
int dashcam_traceparent(char *buffer, size_t size);

// Works for a request on the calling thread until dashcam_task_end: its spans and events belong to
// the request. `request` is dashcam_request.id; `queued_ns` is when the work was handed over (from
// dashcam_now_ns; 0: just now), so that time in a queue is recorded. All zero when nothing
// records. Cost: one clock read. Not in a signal handler.
struct dashcam_task dashcam_task_begin(dashcam_name_t name, uint64_t request, uint64_t queued_ns);

// Ends and records a task, on the thread it began on. Cost and errors as dashcam_span_end.
int dashcam_task_end(struct dashcam_task task);

// The series of this kind and name with these `count` tags (NULL and 0: none; at most 32), and
// `rate`, the share of the calls that are let through, above 0 and at most 1: sums are scaled up
// by it. dashcam_counter and its siblings make one without tags. Equal ones have the same number
// for the life of the process, also before dashcam_start, after dashcam_stop and in forked
// children. Call it once and keep the number: it locks and allocates when the series is new, and a
// process has as many as the setting metrics_series says. Not in a signal handler. Returns 0 on an
// error (NULL, not UTF-8, no known kind, too long, too many); dashcam_last_error gives the reason.
dashcam_metric_t dashcam_metric(int kind,
                                const char *name,
                                const struct dashcam_tag *tags,
                                size_t count,
                                double rate);

// Adds `n`, which may be negative, to a counter. A call never waits and is kept also before
// dashcam_start. Cost: some ns; no lock or syscall, and no allocation after the thread's first use
// of the series, so that a signal handler may count what its thread has counted before. Returns
// DASHCAM_OK, DASHCAM_E_FORKED (a forked child that does not record yet), DASHCAM_E_HANDLE (not
// from dashcam_metric, or of another kind).
int dashcam_count(dashcam_metric_t counter, int64_t n);

// Sets a gauge. The last set of all threads holds. Cost and errors as dashcam_count.
int dashcam_gauge_set(dashcam_metric_t gauge, double value);

// Changes a gauge. Cost and errors as dashcam_count.
int dashcam_gauge_add(dashcam_metric_t gauge, double delta);

// Notes a value of a timing (in milliseconds), a histogram or a distribution. Cost and errors as
// dashcam_count; a value that is no finite number is counted as refused.
int dashcam_record(dashcam_metric_t metric, double value);

// Notes a member of a set (UTF-8); the same one again in a second changes nothing. Cost and errors
// as dashcam_count, and DASHCAM_E_NULL, DASHCAM_E_TEXT.
int dashcam_member(dashcam_metric_t set, const char *member);

// Sends what was counted until now: takes a window, which is otherwise taken once a second, and
// waits until it is in the black box and sent where the settings say, at most two seconds. Not in
// a signal handler. Returns DASHCAM_OK, DASHCAM_E_OFF, DASHCAM_E_FORKED, DASHCAM_E_WRITE (not sent
// in that time).
int dashcam_flush(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

static inline dashcam_attribute dashcam_integer(dashcam_name_t key, int64_t integer) {
    dashcam_attribute attribute;
    attribute.key = key;
    attribute.kind = DASHCAM_INTEGER;
    attribute.value.integer = integer;
    return attribute;
}

static inline dashcam_attribute dashcam_number(dashcam_name_t key, double number) {
    dashcam_attribute attribute;
    attribute.key = key;
    attribute.kind = DASHCAM_NUMBER;
    attribute.value.number = number;
    return attribute;
}

static inline dashcam_attribute dashcam_truth(dashcam_name_t key, int truth) {
    dashcam_attribute attribute;
    attribute.key = key;
    attribute.kind = DASHCAM_TRUTH;
    attribute.value.truth = truth;
    return attribute;
}

// The text is read when the attribute is recorded.
static inline dashcam_attribute dashcam_text(dashcam_name_t key, const char *text) {
    dashcam_attribute attribute;
    attribute.key = key;
    attribute.kind = DASHCAM_TEXT;
    attribute.value.text = text;
    return attribute;
}

// The series of that name without tags; as dashcam_metric.
static inline dashcam_metric_t dashcam_counter(const char *name) {
    return dashcam_metric(DASHCAM_COUNTER, name, NULL, 0, 1.0);
}

static inline dashcam_metric_t dashcam_gauge(const char *name) {
    return dashcam_metric(DASHCAM_GAUGE, name, NULL, 0, 1.0);
}

static inline dashcam_metric_t dashcam_timing(const char *name) {
    return dashcam_metric(DASHCAM_TIMING, name, NULL, 0, 1.0);
}

static inline dashcam_metric_t dashcam_histogram(const char *name) {
    return dashcam_metric(DASHCAM_HISTOGRAM, name, NULL, 0, 1.0);
}

static inline dashcam_metric_t dashcam_distribution(const char *name) {
    return dashcam_metric(DASHCAM_DISTRIBUTION, name, NULL, 0, 1.0);
}

static inline dashcam_metric_t dashcam_set(const char *name) {
    return dashcam_metric(DASHCAM_SET, name, NULL, 0, 1.0);
}

#endif /* DASHCAM_H */
