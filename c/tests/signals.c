// Signal handlers record: a timer's on the recording main thread, and one on a thread that records
// nothing else. Each of their events is in the capture or counted as dropped.
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "check.h"

static dashcam_name_t event_name, key;
enum { SIGNALS = 300 };
static volatile sig_atomic_t handled, refused;

static void on_alarm(int number) {
    dashcam_attribute attribute = dashcam_integer(key, number);
    handled = handled + 1;
    if (dashcam_event(event_name, &attribute, 1) != DASHCAM_OK) refused = refused + 1;
}

static volatile sig_atomic_t alone;

static void on_user(int number) {
    (void)number;
    alone = dashcam_event(event_name, NULL, 0) == DASHCAM_OK ? 1 : -1;
}

// Records nothing except in the handler.
static void *waits(void *unused) {
    struct timespec pause = {0, 1000 * 1000};
    while (alone == 0) nanosleep(&pause, NULL);
    return unused;
}

int main(int argc, char **argv) {
    long spans = 0;
    SAME(argc, 2);
    event_name = dashcam_name("alarm");
    key = dashcam_name("signal");
    dashcam_name_t span_name = dashcam_name("interrupted");
    start(argv[1]);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    SAME(sigaction(SIGALRM, &action, NULL), 0);
    action.sa_handler = on_user;
    SAME(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_t thread;
    SAME(pthread_create(&thread, NULL, waits, NULL), 0);
    SAME(pthread_kill(thread, SIGUSR1), 0);
    SAME(pthread_join(thread, NULL), 0);
    SAME(alone, 1);
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    SAME(setitimer(ITIMER_REAL, &often, NULL), 0);
    // However long the machine takes to deliver so many.
    while (handled < SIGNALS) {
        // The capacity of the black box: further signals interrupt nothing.
        if (spans == 200 * 1000) continue;
        dashcam_span span = dashcam_span_begin(span_name);
        // Names are interned under a lock that the handler must not need.
        for (int i = 0; i < 20; i++) {
            char text[24];
            snprintf(text, sizeof text, "name %ld", (spans * 20 + i) % 4000);
            SAME(dashcam_name(text) != 0, 1);
        }
        SAME(dashcam_span_end(span, 0, NULL, 0), DASHCAM_OK);
        spans++;
    }
    SAME(setitimer(ITIMER_REAL, &never, NULL), 0);
    SAME(refused, 0);
    saved(0, spans, handled + 1, 0);
    return 0;
}
