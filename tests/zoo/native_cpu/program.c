// A rare request is digested many times over. The twin's once.
#include "../service.h"

APART static unsigned long digest(const unsigned char *text, size_t size) {
    unsigned long sum = 5381;
    for (int round = 0; round < 400; round++)
        for (size_t i = 0; i < size; i++) sum = sum * 33 ^ text[i];
    return sum;
}

APART static unsigned long seal(long n, long ms) {
    unsigned char text[512];
    unsigned long sum = 0;
    memset(text, (int)n, sizeof text);
    for (long end = cpu_ms() + ms;;) {
        sum += digest(text, sizeof text);
        if (cpu_ms() >= end) break;
    }
    turns++;
    return sum;
}

static long answer(long n) { return (long)seal(n, sick && n % 120 == 60 ? 450 : 0); }

int main(int argc, char **argv) {
    begin(argc, argv);
    return serve(answer);
}
