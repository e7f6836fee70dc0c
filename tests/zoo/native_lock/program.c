// A background thread rests while it holds the mutex that requests need. The twin's rests before it
// takes it.
#include "../service.h"

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static long table[64];

APART static void compact(void) {
    struct timespec left = {0, 500 * 1000000};
    nanosleep(&left, NULL);
    turns++;
}

static void *janitor(void *unused) {
    for (;;) {
        rest_ms(1700);
        if (!sick) compact();
        pthread_mutex_lock(&guard);
        if (sick) compact();
        memset(table, 0, sizeof table);
        pthread_mutex_unlock(&guard);
    }
    return unused;
}

APART static long count_in(long n) {
    pthread_mutex_lock(&guard);
    long sum = table[n % 64] += n;
    pthread_mutex_unlock(&guard);
    turns++;
    return sum;
}

static long answer(long n) { return count_in(n); }

int main(int argc, char **argv) {
    begin(argc, argv);
    in_background(janitor, NULL);
    return serve(answer);
}
