// Parent and child record, each in its own recorder, with names made before the fork.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void record(dashcam_name_t name, int times) {
    for (int i = 0; i < times; i++) {
        dashcam_span span = dashcam_span_begin(name);
        SAME(dashcam_span_end(span, 0, NULL, 0), DASHCAM_OK);
    }
}

// Threads of a child that start it at the same time find one recorder.
static void *wakes(void *unused) {
    for (int i = 0; i < 100; i++) {
        dashcam_request request = dashcam_request_begin(dashcam_name("both"));
        SAME(dashcam_request_end(request, 0, NULL, 0), DASHCAM_OK);
    }
    return unused;
}

static int many_threads(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) SAME(pthread_create(&threads[i], NULL, wakes, NULL), 0);
    for (int i = 0; i < 4; i++) SAME(pthread_join(threads[i], NULL), 0);
    saved(400, 0, 0, 0);
    return 0;
}

int main(int argc, char **argv) {
    SAME(argc, 2);
    dashcam_name_t early = dashcam_name("before the start");
    start(argv[1]);
    for (int i = 0; i < 20; i++) {
        char text[16];
        snprintf(text, sizeof text, "filler %d", i);
        dashcam_name(text);
    }
    dashcam_name_t name = dashcam_name("both");
    record(early, 10);
    record(name, 100);
    dashcam_request request = dashcam_request_begin(name);
    dashcam_span span = dashcam_span_begin(name);
    pid_t child = fork();
    if (child == 0) {
        SAME(dashcam_event(name, NULL, 0), DASHCAM_E_FORKED);
        SAME(dashcam_span_begin(name).epoch, 0);
        SAME(dashcam_span_end(span, 0, NULL, 0), DASHCAM_E_FORKED);
        SAME(dashcam_request_end(request, 0, NULL, 0), DASHCAM_E_FORKED);
        SAME(dashcam_start(NULL, 0), DASHCAM_ALREADY);
        SAME(dashcam_span_end(span, 0, NULL, 0), DASHCAM_E_HANDLE);
        SAME(dashcam_request_end(request, 0, NULL, 0), DASHCAM_E_HANDLE);
        SAME(dashcam_span_begin(name).request, 0);
        record(early, 1);
        record(name, 50);
        record(dashcam_name("of the child"), 5);
        dashcam_request own = dashcam_request_begin(name);
        SAME(dashcam_request_end(own, 0, NULL, 0), DASHCAM_OK);
        // The span begun above is never ended: it is recorded as open.
        saved(1, 57, 0, 0);
        return 0;
    }
    int status = -1;
    record(name, 100);
    SAME(dashcam_span_end(span, 0, NULL, 0), DASHCAM_OK);
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    SAME(dashcam_request_end(request, 0, NULL, 0), DASHCAM_OK);
    saved(1, 211, 0, 0);
    child = fork();
    if (child == 0) return many_threads();
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    // A child that does not start a recorder leaves nothing behind.
    child = fork();
    if (child == 0) return dashcam_stop() == DASHCAM_OK ? 0 : 1;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    return 0;
}
