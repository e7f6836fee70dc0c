// Threads and forked children count; each count is in one window of the capture.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 4, TURNS = 10000 };

static dashcam_metric_t orders, in_europe, depth, query, size, users;

static void *counts(void *unused) {
    for (int turn = 0; turn < TURNS; turn++) {
        SAME(dashcam_count(orders, 1), DASHCAM_OK);
        SAME(dashcam_count(in_europe, turn % 2 ? 3 : -1), DASHCAM_OK);
        SAME(dashcam_record(query, 1.25), DASHCAM_OK);
        SAME(dashcam_member(users, turn % 2 ? "ann" : "bob"), DASHCAM_OK);
    }
    return unused;
}

static void wrong(void) {
    dashcam_tag tag = {"region", NULL};
    SAME(dashcam_counter(NULL), 0);
    SAME(dashcam_counter(""), 0);
    SAME(strstr(dashcam_last_error(), "refused") != NULL, 1);
    SAME(dashcam_counter("caf\xe9"), 0);
    SAME(dashcam_metric(6, "odd", NULL, 0, 1.0), 0);
    SAME(dashcam_metric(DASHCAM_COUNTER, "odd", NULL, 0, 2.0), 0);
    SAME(dashcam_metric(DASHCAM_COUNTER, "odd", NULL, 1, 1.0), 0);
    SAME(dashcam_metric(DASHCAM_COUNTER, "odd", &tag, 1, 1.0), 0);
    SAME(dashcam_count(0, 1), DASHCAM_E_HANDLE);
    SAME(dashcam_count(4000000000u, 1), DASHCAM_E_HANDLE);
    SAME(dashcam_count(depth, 1), DASHCAM_E_HANDLE);
    SAME(dashcam_gauge_set(orders, 1), DASHCAM_E_HANDLE);
    SAME(dashcam_gauge_add(orders, 1), DASHCAM_E_HANDLE);
    SAME(dashcam_record(users, 1), DASHCAM_E_HANDLE);
    SAME(dashcam_member(query, "ann"), DASHCAM_E_HANDLE);
    SAME(dashcam_member(users, NULL), DASHCAM_E_NULL);
}

int main(int argc, char **argv) {
    SAME(argc, 2);
    dashcam_tag tags[] = {{"region", "eu"}, {"tier", ""}}, turned[] = {{"tier", ""}, {"region", "eu"}};
    orders = dashcam_counter("orders");
    in_europe = dashcam_metric(DASHCAM_COUNTER, "orders", tags, 2, 1.0);
    depth = dashcam_gauge("depth");
    query = dashcam_timing("db.query");
    size = dashcam_distribution("size");
    users = dashcam_set("users");
    SAME(dashcam_counter("orders"), orders);
    SAME(dashcam_metric(DASHCAM_COUNTER, "orders", turned, 2, 1.0), in_europe);
    SAME(in_europe != orders, 1);
    SAME(dashcam_histogram("size") != size, 1);
    // Kept until recording begins.
    SAME(dashcam_count(orders, 5), DASHCAM_OK);
    SAME(dashcam_flush(), DASHCAM_E_OFF);
    wrong();
    start(argv[1]);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) SAME(pthread_create(&threads[i], NULL, counts, NULL), 0);
    for (int i = 0; i < THREADS; i++) SAME(pthread_join(threads[i], NULL), 0);
    SAME(dashcam_gauge_set(depth, 7), DASHCAM_OK);
    SAME(dashcam_gauge_add(depth, -2.5), DASHCAM_OK);
    SAME(dashcam_record(size, 312), DASHCAM_OK);
    pid_t child = fork();
    if (child == 0) {
        // What is counted here is not the parent's.
        SAME(dashcam_count(orders, 1000000), DASHCAM_E_FORKED);
        _exit(0);
    }
    int status = 1;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    SAME(dashcam_flush(), DASHCAM_OK);
    saved(0, 0, 0, 0);
    return 0;
}
