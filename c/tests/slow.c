// A service with a rare pause: the recorder saves a capture by itself, and `dashcam why` names it.
#include <time.h>

#include "check.h"

static void pause_ms(long ms) {
    struct timespec pause = {0, ms * 1000 * 1000};
    nanosleep(&pause, NULL);
}

int main(int argc, char **argv) {
    SAME(argc, 2);
    start(argv[1]);
    dashcam_name_t name = dashcam_name("GET /checkout");
    for (int turn = 0; turn < 200; turn++) {
        dashcam_request request = dashcam_request_begin(name);
        pause_ms(turn % 40 == 39 ? 150 : 1);
        SAME(dashcam_request_end(request, 0, NULL, 0), DASHCAM_OK);
    }
    // Writes the capture that is due for the last slow requests.
    SAME(dashcam_stop(), DASHCAM_OK);
    return 0;
}
