// What the test programs share: they print what a capture must hold, and c/tests/run.py checks it.

#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dashcam.h>

// Ends the program when `left` differs from `right`.
#define SAME(left, right) same(#left, (long)(left), (long)(right), __LINE__)

static inline void same(const char *what, long found, long wanted, int line) {
    if (found != wanted) {
        fprintf(stderr, "line %d: %s is %ld, wanted %ld (%s)\n", line, what, found, wanted,
                dashcam_last_error());
        exit(1);
    }
}

static inline void start(const char *out) {
    dashcam_setting settings[3];
    settings[0].name = "out";
    settings[0].value = out;
    settings[1].name = "memory";
    // So small a box has its whole memory from the start: nothing is overwritten by a burst.
    settings[1].value = "8MiB";
    settings[2].name = "slow";
    settings[2].value = "50ms";
    SAME(dashcam_start(settings, 3), DASHCAM_OK);
}

// Saves a capture and prints what it must hold.
static inline void saved(long requests, long spans, long events, long tasks) {
    char path[4096];
    SAME(dashcam_snap("test", path, sizeof path), DASHCAM_OK);
    printf("{\"capture\": \"%s\", \"requests\": %ld, \"spans\": %ld, \"events\": %ld, "
           "\"tasks\": %ld}\n",
           path, requests, spans, events, tasks);
    fflush(stdout);
}

#endif
