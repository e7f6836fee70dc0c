// What the sick programs in C share: an HTTP/1.1 service with a thread for each connection. A
// program gives a function that is called for the n-th request, and ends its main with `return
// serve(answer);`. `sick` is 0 in the twin, after `begin`. Requests are marked if WITH_DASHCAM is
// set; without it the program is the same and does not use dashcam (check_cases.py).

#ifndef SERVICE_H
#define SERVICE_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef WITH_DASHCAM
#include <dashcam.h>
static dashcam_name_t page;
#endif

// Appears in stacks under its own name.
#define APART __attribute__((noinline))

typedef long (*Answer)(long n);
static int sick = 1;
// Written after calls, so that no call is the last operation of a function.
static volatile unsigned long turns;
static atomic_long count;
static Answer answer_of;

static inline void begin(int argc, char **argv) {
    sick = !(argc > 1 && strcmp(argv[1], "healthy") == 0);
}

static inline void rest_ms(long ms) {
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static inline long cpu_ms(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static inline void in_background(void *(*work)(void *), void *with) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, with) == 0) pthread_detach(thread);
}

static inline int listen_on(int port) {
    int on = 1, server = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(server, (struct sockaddr *)&name, sizeof name) != 0 || listen(server, 64) != 0) {
        perror("listen");
        exit(1);
    }
    return server;
}

// Work of every request: a little computing.
APART static unsigned long honest_work(long n) {
    unsigned long sum = 0;
    for (long i = 0; i < 20000 + n % 7; i++) sum = sum * 31 + (unsigned long)i;
    return sum;
}

APART static unsigned long handle(long n) {
#ifdef WITH_DASHCAM
    dashcam_request request = dashcam_request_begin(page);
#endif
    unsigned long sum = honest_work(n) + (unsigned long)answer_of(n);
#ifdef WITH_DASHCAM
    dashcam_request_end(request, 0, NULL, 0);
#endif
    turns++;
    return sum;
}

static void *converse(void *connection) {
    int end = (int)(long)connection, on = 1;
    char head[4096], reply[256], body[32];
    size_t have = 0;
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (;;) {
        ssize_t got = recv(end, head + have, sizeof head - 1 - have, 0);
        if (got <= 0) break;
        have += (size_t)got;
        head[have] = 0;
        if (!strstr(head, "\r\n\r\n")) continue;
        have = 0;
        int size = snprintf(body, sizeof body, "%lu", handle(atomic_fetch_add(&count, 1) + 1));
        int whole = snprintf(reply, sizeof reply, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s",
                             size, body);
        if (send(end, reply, (size_t)whole, MSG_NOSIGNAL) != whole) break;
    }
    close(end);
    return NULL;
}

static void *take(void *server) {
    for (;;) {
        int end = accept((int)(long)server, NULL, NULL);
        if (end >= 0) in_background(converse, (void *)(long)end);
    }
    return NULL;
}

// Serves until SIGTERM comes.
static inline int serve(Answer answer) {
    const char *port = getenv("PORT");
    sigset_t ends;
    int number;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
#ifdef WITH_DASHCAM
    dashcam_start(NULL, 0); // the settings are in the environment
    page = dashcam_name("GET /");
#endif
    answer_of = answer;
    in_background(take, (void *)(long)listen_on(port ? atoi(port) : 8090));
    sigwait(&ends, &number);
#ifdef WITH_DASHCAM
    dashcam_stop();
#endif
    exit(0);
}

#endif
