// Each request asks another process, which rarely thinks for half a second. In the twin it never
// does.
#include "../service.h"

static struct sockaddr_in backend;

static void *reply(void *connection) {
    int end = (int)(long)connection;
    for (char word; recv(end, &word, 1, 0) == 1;) {
        if (word == 's') rest_ms(500);
        if (send(end, &word, 1, MSG_NOSIGNAL) != 1) break;
    }
    close(end);
    return NULL;
}

static void *listen_for(void *server) {
    for (;;) {
        int end = accept((int)(long)server, NULL, NULL);
        if (end >= 0) in_background(reply, (void *)(long)end);
    }
    return NULL;
}

// The other process. It ends with the program, whose end of the pipe is closed then.
static void start_backend(void) {
    int server = listen_on(0), alive[2];
    socklen_t size = sizeof backend;
    char none;
    getsockname(server, (struct sockaddr *)&backend, &size);
    if (pipe(alive) != 0 || fork() != 0) {
        close(server);
        return;
    }
    close(alive[1]);
    in_background(listen_for, (void *)(long)server);
    while (read(alive[0], &none, 1) > 0) turns++;
    _exit(0);
}

APART static long ask(char word) {
    char said = 0;
    int end = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(end, (struct sockaddr *)&backend, sizeof backend) == 0 &&
        send(end, &word, 1, MSG_NOSIGNAL) == 1)
        recv(end, &said, 1, 0);
    close(end);
    turns++;
    return said;
}

static long answer(long n) { return ask(sick && n % 120 == 60 ? 's' : 'n'); }

int main(int argc, char **argv) {
    begin(argc, argv);
    start_backend();
    return serve(answer);
}
