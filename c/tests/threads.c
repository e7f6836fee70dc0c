// Eight threads record, one leaves in the middle of a span, one never records.
#include <pthread.h>
#include <stdint.h>

#include "check.h"

enum { THREADS = 8, TURNS = 1000 };

static dashcam_name_t request_name, span_name, event_name, task_name, keys[4];

static void *works(void *number) {
    char name[16];
    snprintf(name, sizeof name, "worker %ld", (long)(intptr_t)number);
    SAME(dashcam_thread_name(name), DASHCAM_OK);
    for (int turn = 0; turn < TURNS; turn++) {
        dashcam_request request = dashcam_request_begin(request_name);
        dashcam_span outer = dashcam_span_begin(span_name), inner = dashcam_span_begin(span_name);
        dashcam_attribute attributes[4];
        attributes[0] = dashcam_integer(keys[0], turn);
        attributes[1] = dashcam_number(keys[1], 0.5);
        attributes[2] = dashcam_truth(keys[2], 1);
        attributes[3] = dashcam_text(keys[3], "k1");
        SAME(dashcam_event(event_name, attributes, 4), DASHCAM_OK);
        SAME(dashcam_span_end(inner, 0, attributes, 2), DASHCAM_OK);
        SAME(dashcam_span_end(outer, turn % 2, NULL, 0), DASHCAM_OK);
        SAME(dashcam_request_end(request, 0, attributes, 1), DASHCAM_OK);
    }
    return NULL;
}

static void *leaves(void *unused) {
    dashcam_span span = dashcam_span_begin(span_name);
    SAME(dashcam_event(event_name, NULL, 0), DASHCAM_OK);
    SAME(span.begin_ns != 0, 1);
    pthread_exit(unused);
}

static void *idles(void *unused) { return unused; }

static void *continues(void *request) {
    dashcam_task task = dashcam_task_begin(task_name, *(uint64_t *)request, dashcam_now_ns());
    SAME(dashcam_event(event_name, NULL, 0), DASHCAM_OK);
    SAME(dashcam_task_end(task), DASHCAM_OK);
    return NULL;
}

static void join(pthread_t thread) { SAME(pthread_join(thread, NULL), 0); }

int main(int argc, char **argv) {
    pthread_t workers[THREADS], other;
    SAME(argc, 2);
    start(argv[1]);
    request_name = dashcam_name("GET /checkout");
    span_name = dashcam_name("db.query");
    event_name = dashcam_name("cache.miss");
    task_name = dashcam_name("resize");
    SAME(dashcam_name("db.query"), span_name);
    const char *texts[] = {"turn", "ratio", "hit", "key"};
    for (int i = 0; i < 4; i++) keys[i] = dashcam_name(texts[i]);
    for (intptr_t i = 0; i < THREADS; i++) {
        SAME(pthread_create(&workers[i], NULL, works, (void *)i), 0);
    }
    SAME(pthread_create(&other, NULL, leaves, NULL), 0);
    join(other);
    SAME(pthread_create(&other, NULL, idles, NULL), 0);
    join(other);
    dashcam_request outer = dashcam_request_begin(request_name);
    dashcam_request inner = dashcam_request_begin(request_name);
    SAME(dashcam_request_end(inner, 1, NULL, 0), DASHCAM_OK);
    SAME(dashcam_span_begin(span_name).request == outer.id, 1);
    SAME(pthread_create(&other, NULL, continues, &outer.id), 0);
    join(other);
    SAME(dashcam_request_end(outer, 0, NULL, 0), DASHCAM_OK);
    for (int i = 0; i < THREADS; i++) join(workers[i]);
    // One span of this thread was never ended: it is recorded as open.
    saved(THREADS * TURNS + 2, 2 * THREADS * TURNS + 1, THREADS * TURNS + 2, 1);
    return 0;
}
