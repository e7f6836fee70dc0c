// Waits three calls deep, for `dashcam why` to name by function, file and line: a pause, a mutex
// that another thread holds, a peer that answers late; and CPU time, inlined and not. The test
// reads the lines marked WAIT-...
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define APART __attribute__((noinline))

static volatile int turns;
static pthread_mutex_t stock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];

APART static void rest(long ms) {
    struct timespec pause = {0, ms * 1000 * 1000};
    nanosleep(&pause, NULL); // WAIT-sleep
    turns++;
}

APART static void back_off(long ms) {
    rest(ms);
    turns++;
}

APART static void reserve(long ms) {
    (void)ms;
    pthread_mutex_lock(&stock); // WAIT-lock
    turns++;
    pthread_mutex_unlock(&stock);
}

APART static void ask(long ms) {
    char reply = (char)ms;
    SAME(write(ends[0], &reply, 1), 1);
    SAME(read(ends[0], &reply, 1), 1); // WAIT-read
    turns++;
}

static long cpu_ms(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static volatile unsigned long digested;

APART static void digest(long ms) {
    for (long end = cpu_ms() + ms; cpu_ms() < end; turns++)
        for (unsigned long i = 0; i < 100000; i++) digested = digested * 31 + i; // WAIT-cpu
}

static inline __attribute__((always_inline)) void mix(volatile unsigned long *table) {
    // WAIT-inlined
    for (unsigned long i = 0; i < 100000; i++) table[i % 64] += i ^ table[(i + 7) % 64];
}

APART static void total(long ms) {
    volatile unsigned long table[64] = {0};
    for (long end = cpu_ms() + ms; cpu_ms() < end; turns++)
        mix(table);
}

APART static void tally(void) {
    for (unsigned long i = 0; i < 2000000; i++) digested = digested * 31 + i; // WAIT-ticks
    turns++;
}

static void on_tick(int number) {
    tally();
    turns += number;
}

// Is interrupted all the time: nearly all of its time is the handler's.
APART static void serve_signals(long ms) {
    for (long end = cpu_ms() + ms; cpu_ms() < end; turns++)
        if (ms > 1) kill(getpid(), SIGUSR2);
}

APART static void lookup(const char *kind, long ms) {
    char room[600];
    memset(room, (int)ms, sizeof room);
    switch (kind[0]) {
    case 's':
        back_off(ms);
        break;
    case 'l':
    case 'h':
        reserve(ms);
        break;
    case 'c':
        digest(ms);
        break;
    case 't':
        serve_signals(ms);
        break;
    case 'i':
        total(ms);
        break;
    default:
        ask(ms);
    }
    turns += room[turns % 600];
}

APART static void price(const char *kind, long ms) {
    lookup(kind, ms);
    turns++;
}

APART static void restock(long ms, int computes) {
    pthread_mutex_lock(&stock);
    turns++;
    if (computes)
        digest(ms);
    else
        rest(ms);
    pthread_mutex_unlock(&stock);
    turns++;
}

static void *peer(void *unused) {
    (void)unused;
    for (char asked; read(ends[1], &asked, 1) == 1;) {
        rest((unsigned char)asked);
        SAME(write(ends[1], &asked, 1), 1);
    }
    return NULL;
}

static volatile int wanted;

static void *holder(void *unused) {
    (void)unused;
    for (;;) {
        int how = wanted;
        if (how) {
            wanted = 0;
            restock(160, how == 2);
        }
        rest(1);
    }
    return NULL;
}

int main(int argc, char **argv) {
    SAME(argc, 3);
    const char *kind = argv[2];
    start(argv[1]);
    dashcam_name_t name = dashcam_name("GET /checkout");
    signal(SIGUSR2, on_tick);
    int locks = kind[0] == 'l' || kind[0] == 'h';
    pthread_t thread;
    SAME(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    SAME(pthread_create(&thread, NULL, locks ? holder : peer, NULL), 0);
    // The sampler has started by then.
    rest(100);
    for (int turn = 0; turn < 160; turn++) {
        int slow = turn % 40 == 39;
        if (slow && locks) {
            // The other thread takes the mutex first.
            wanted = kind[0] == 'l' ? 1 : 2;
            rest(5);
        }
        dashcam_request request = dashcam_request_begin(name);
        price(kind, slow ? 160 : 1);
        SAME(dashcam_request_end(request, 0, NULL, 0), DASHCAM_OK);
    }
    SAME(dashcam_stop(), DASHCAM_OK);
    return 0;
}
