/* LTTng-UST in the loops of bench/src: calls, churn, snapshot; prints one line of JSON.
 *
 * bench/run.py has made the session BENCH_SESSION (snapshot mode, a ring for each core); this
 * program starts and stops it with the `lttng` command and requests snapshots from it. */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "points.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <ftw.h>
#include <unistd.h>

#define WORK_STEPS 68
#define MOST 64

static int quick, cores;
static int core_ids[CPU_SETSIZE];
static cpu_set_t all_cores;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t counter(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return now_ns();
#endif
}

static void keep(uint64_t value) { __asm__ volatile("" : : "r"(value) : "memory"); }

static void pin(int from_last)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core_ids[cores - 1 - from_last % cores], &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void command(const char *verb)
{
    char line[512];
    const char *session = getenv("BENCH_SESSION");
    snprintf(line, sizeof line, "lttng -q %s %s%s >/dev/null", verb,
             strncmp(verb, "snapshot", 8) ? "" : "--session=", session ? session : "dashcam-bench");
    if (system(line) != 0) {
        fprintf(stderr, "lttng: `%s` failed\n", line);
        exit(1);
    }
}

/* As `calls::work`. */
static __attribute__((noinline)) uint64_t work(uint64_t seed)
{
    uint64_t x = seed | 1;
    for (int i = 0; i < WORK_STEPS; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

static __attribute__((noinline)) void loop_empty(uint64_t n) { for (uint64_t i = 0; i < n; i++) keep(i); }

static __attribute__((noinline)) void loop_two_rdtsc(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) { keep(counter()); keep(counter()); }
}

static __attribute__((noinline)) void loop_span(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        lttng_ust_tracepoint(bench, begin, i);
        keep(i);
        lttng_ust_tracepoint(bench, end);
    }
}

static __attribute__((noinline)) void loop_event(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) lttng_ust_tracepoint(bench, point, i);
}

static __attribute__((noinline)) void loop_work(uint64_t n) { for (uint64_t i = 0; i < n; i++) keep(work(i)); }

static __attribute__((noinline)) void loop_span_work(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        lttng_ust_tracepoint(bench, begin, i);
        keep(work(i));
        lttng_ust_tracepoint(bench, end);
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

static int printed;

static void number(const char *name, double value)
{
    printf("%s\"%s\": %.4f", printed++ ? ", " : "{", name, value);
}

static void list(const char *name, const double *values, int count)
{
    printf("%s\"%s\": [", printed++ ? ", " : "{", name);
    for (int i = 0; i < count; i++) printf("%s%.4f", i ? ", " : "", values[i]);
    printf("]");
}

struct loop { const char *name; void (*run)(uint64_t); };

static void medians(const struct loop *loops, int count, uint64_t turns, int runs)
{
    double times[8][MOST];
    for (int l = 0; l < count; l++) loops[l].run(turns);
    for (int r = 0; r < runs; r++)
        for (int l = 0; l < count; l++) {
            uint64_t begin = now_ns();
            loops[l].run(turns);
            times[l][r] = (double)(now_ns() - begin) / (double)turns;
        }
    for (int l = 0; l < count; l++) number(loops[l].name, median(times[l], runs));
}

static pthread_barrier_t barrier;
static uint64_t events_turns;
static double took[2];
static int together;
static atomic_int done;

static void *events_thread(void *cpu_)
{
    int cpu = (int)(intptr_t)cpu_;
    pin(cpu);
    loop_event(events_turns / 10);
    pthread_barrier_wait(&barrier);
    uint64_t begin = now_ns();
    loop_event(events_turns);
    took[cpu] = (double)(now_ns() - begin) / (double)events_turns;
    atomic_fetch_add(&done, 1);
    while (atomic_load(&done) < together) loop_event(1000); /* the other one is not measured alone */
    return NULL;
}

/* ns for each event on each of the CPUs from first to last, in `took` */
static void events_on(int first, int last)
{
    pthread_t ids[2];
    together = last - first + 1;
    atomic_store(&done, 0);
    pthread_barrier_init(&barrier, NULL, (unsigned)together);
    for (int i = first; i <= last; i++) pthread_create(&ids[i], NULL, events_thread, (void *)(intptr_t)i);
    for (int i = first; i <= last; i++) pthread_join(ids[i], NULL);
}

static void calls(void)
{
    uint64_t turns = 100000;
    int runs = quick ? 3 : 5;
    const struct loop off[] = {{"empty_off", loop_empty}, {"span_off", loop_span}, {"event_off", loop_event}};
    const struct loop on[] = {{"empty", loop_empty}, {"two_rdtsc", loop_two_rdtsc}, {"span", loop_span},
                              {"work", loop_work}, {"span_work", loop_span_work}, {"event", loop_event}};
    command("stop");
    pin(0);
    medians(off, 3, turns * 5, runs);
    sched_setaffinity(0, sizeof all_cores, &all_cores);
    command("start");
    pin(0);
    medians(on, 6, turns, runs);
    sched_setaffinity(0, sizeof all_cores, &all_cores);
    if (cores < 2) return;
    double times[3][MOST];
    events_turns = turns * 3;
    for (int r = 0; r < runs * 4; r++) {
        events_on(0, 0);
        events_on(1, 1);
        double alone = 1 / took[0] + 1 / took[1];
        times[0][r] = (took[0] + took[1]) / 2;
        events_on(0, 1);
        times[1][r] = (took[0] + took[1]) / 2;
        times[2][r] = 2 * (1 / took[0] + 1 / took[1]) / alone;
    }
    number("event_1_thread", median(times[0], runs * 4));
    number("event_2_threads", median(times[1], runs * 4));
    number("scaling", median(times[2], runs * 4));
}

static atomic_int stop_churn;
static atomic_ulong churned;

static void *child(void *unused)
{
    loop_event(3);
    return unused;
}

static void *spawner(void *unused)
{
    unsigned long done = 0;
    while (!atomic_load_explicit(&stop_churn, memory_order_relaxed)) {
        pthread_t id;
        if (pthread_create(&id, NULL, child, NULL) == 0) {
            pthread_join(id, NULL);
            done++;
        }
    }
    atomic_fetch_add(&churned, done);
    return unused;
}

static double block(int spawners, unsigned milliseconds, unsigned long *threads)
{
    pthread_t ids[MOST];
    atomic_store(&stop_churn, 0);
    atomic_store(&churned, 0);
    uint64_t begin = now_ns();
    for (int i = 0; i < spawners; i++) pthread_create(&ids[i], NULL, spawner, NULL);
    usleep(milliseconds * 1000);
    atomic_store(&stop_churn, 1);
    for (int i = 0; i < spawners; i++) pthread_join(ids[i], NULL);
    *threads = atomic_load(&churned);
    return (double)*threads / ((double)(now_ns() - begin) / 1e9);
}

static double rss(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* As `churn::ORDER`. */
static const int ORDER[] = {0, 1, 1, 0, 1, 0, 0, 1};

static void churn(void)
{
    const int spawners[] = {1, 8, 64};
    unsigned milliseconds = quick ? 40 : 100;
    double rates[3][2][MOST], grown[3] = {0}, total[3] = {0};
    int counts[3][2] = {{0}};
    unsigned long threads;
    command("stop");
    block(64, milliseconds, &threads);
    command("start");
    block(64, milliseconds, &threads);
    for (unsigned o = 0; o < sizeof ORDER / sizeof *ORDER; o++) {
        int on = ORDER[o];
        if (on != (o ? ORDER[o - 1] : 1)) command(on ? "start" : "stop");
        for (int s = 0; s < 3; s++) {
            double before = rss();
            rates[s][on][counts[s][on]++] = block(spawners[s], milliseconds, &threads);
            double after = rss();
            if (on) {
                grown[s] += after > before ? after - before : 0;
                total[s] += (double)threads;
            }
        }
    }
    for (int s = 0; s < 3; s++) {
        char name[64];
        snprintf(name, sizeof name, "on_%d", spawners[s]);
        list(name, rates[s][1], counts[s][1]);
        snprintf(name, sizeof name, "off_%d", spawners[s]);
        list(name, rates[s][0], counts[s][0]);
        snprintf(name, sizeof name, "bytes_a_thread_%d", spawners[s]);
        number(name, grown[s] / (total[s] > 0 ? total[s] : 1));
    }
}

/* As snapshot.rs: the window that writers are in; -1 ends them. */
static atomic_int window_at;
static _Atomic uint64_t gaps[4 * MOST + 1], counts_of[4 * MOST + 1];

static void *writer(void *unused)
{
    int window = 0;
    uint64_t gap = 0, count = 0, last = counter();
    for (uint64_t i = 0;; i++) {
        lttng_ust_tracepoint(bench, point, i);
        uint64_t now = counter();
        if (now - last > gap) gap = now - last;
        last = now;
        count++;
        int at = atomic_load_explicit(&window_at, memory_order_relaxed);
        if (at != window) {
            uint64_t seen = atomic_load(&gaps[window]);
            while (gap > seen && !atomic_compare_exchange_weak(&gaps[window], &seen, gap)) { }
            atomic_fetch_add(&counts_of[window], count);
            if (at < 0) return unused;
            window = at;
            gap = count = 0;
        }
    }
}

static void *filler(void *index)
{
    pin((int)(intptr_t)index);
    /* An event takes at least 16 bytes here. */
    loop_event(((uint64_t)64 << 20) / 16 / (uint64_t)cores * 5 / 4);
    return NULL;
}

static double tree_bytes;

static int measure_entry(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type == FTW_F) tree_bytes += (double)info->st_size;
    return remove(path);
}

static void snapshots(const char *name, int writers, double counts_a_ns)
{
    int dumps = quick ? 2 : 5;
    double took[MOST], bytes[MOST], during[MOST], quiet[MOST], rate[MOST];
    char out[4096], text[64];
    pthread_t ids[MOST];
    snprintf(out, sizeof out, "%s/lttng", getenv("BENCH_OUT"));
    memset((void *)gaps, 0, sizeof gaps);
    memset((void *)counts_of, 0, sizeof counts_of);
    atomic_store(&window_at, 0);
    for (int i = 0; i < writers && i < MOST; i++) pthread_create(&ids[i], NULL, writer, NULL);
    usleep(100000);
    for (int d = 0; d < dumps; d++) {
        atomic_fetch_add(&window_at, 1);
        uint64_t begin = now_ns();
        command("snapshot record");
        uint64_t length = now_ns() - begin;
        atomic_fetch_add(&window_at, 1);
        took[d] = (double)length / 1e6;
        sync();
        tree_bytes = 0;
        nftw(out, measure_entry, 16, FTW_DEPTH | FTW_PHYS);
        mkdir(out, 0700);
        bytes[d] = tree_bytes;
        usleep(30000);
        atomic_fetch_add(&window_at, 1);
        usleep((useconds_t)(length / 1000));
        atomic_fetch_add(&window_at, 1);
        usleep(5000);
    }
    atomic_store(&window_at, -1);
    for (int i = 0; i < writers && i < MOST; i++) pthread_join(ids[i], NULL);
    for (int d = 0; d < dumps; d++) {
        during[d] = (double)gaps[d * 4 + 1] / counts_a_ns / 1e3;
        quiet[d] = (double)gaps[d * 4 + 3] / counts_a_ns / 1e3;
        rate[d] = (double)counts_of[d * 4 + 1] / (double)(counts_of[d * 4 + 3] + 1);
    }
    const char *keys[] = {"dump_ms", "bytes", "gap_us", "quiet_us", "rate"};
    const double *values[] = {took, bytes, during, quiet, rate};
    for (int k = 0; k < 5; k++) {
        snprintf(text, sizeof text, "%s_%s", name, keys[k]);
        list(text, values[k], dumps);
    }
}

static void snapshot(void)
{
    pthread_t ids[MOST];
    uint64_t begin = now_ns(), count = counter();
    usleep(100000);
    double counts_a_ns = (double)(counter() - count) / (double)(now_ns() - begin);
    for (int i = 0; i < cores && i < MOST; i++) pthread_create(&ids[i], NULL, filler, (void *)(intptr_t)i);
    for (int i = 0; i < cores && i < MOST; i++) pthread_join(ids[i], NULL);
    snapshots("one", 1, counts_a_ns);
    snapshots("all", cores, counts_a_ns);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    quick = getenv("BENCH_QUICK") && strcmp(getenv("BENCH_QUICK"), "1") == 0;
    sched_getaffinity(0, sizeof all_cores, &all_cores);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all_cores)) core_ids[cores++] = i;
    if (strcmp(way, "calls") == 0) calls();
    else if (strcmp(way, "churn") == 0) churn();
    else if (strcmp(way, "snapshot") == 0) snapshot();
    else return 2;
    printf("}\n");
    return 0;
}
