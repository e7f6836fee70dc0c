// A request rarely waits before it tries again. The twin tries at once.
#include "../service.h"

APART static void pause_for(long ms) {
    struct timespec left = {0, ms * 1000000};
    nanosleep(&left, NULL);
    turns++;
}

APART static void insist(long n) {
    for (int tries = 0; tries < 3; tries++) {
        if (sick && n % 120 == 60) pause_for(170);
        turns++;
    }
}

static long answer(long n) {
    insist(n);
    return n;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    return serve(answer);
}
