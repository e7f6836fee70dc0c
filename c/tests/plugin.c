// A host that loads the library with dlopen, and closes it while its threads run.
#include <dlfcn.h>
#include <time.h>

#include "check.h"

// Functions by name, as dlsym gives them.
#define FIND(type, name) \
    type name##_; \
    do { \
        void *at = dlsym(library, #name); \
        if (at == NULL) return 3; \
        memcpy(&name##_, &at, sizeof at); \
    } while (0)

typedef int (*start_fn)(const dashcam_setting *, size_t);
typedef int (*snap_fn)(const char *, char *, size_t);
typedef dashcam_name_t (*name_fn)(const char *);
typedef int (*event_fn)(dashcam_name_t, const dashcam_attribute *, size_t);

int main(int argc, char **argv) {
    char path[4096];
    if (argc != 3) return 2;
    void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    FIND(start_fn, dashcam_start);
    FIND(snap_fn, dashcam_snap);
    FIND(name_fn, dashcam_name);
    FIND(event_fn, dashcam_event);
    dashcam_setting out = {"out", argv[1]};
    if (dashcam_start_(&out, 1) != DASHCAM_OK) return 4;
    dashcam_name_t name = dashcam_name_("loaded");
    for (int i = 0; i < 100; i++) {
        if (dashcam_event_(name, NULL, 0) != DASHCAM_OK) return 5;
    }
    if (dashcam_snap_("test", path, sizeof path) != DASHCAM_OK) return 6;
    printf("{\"capture\": \"%s\", \"requests\": 0, \"spans\": 0, \"events\": 100, \"tasks\": 0}\n",
           path);
    if (dlclose(library) != 0) return 7;
    struct timespec pause = {0, 100 * 1000 * 1000};
    nanosleep(&pause, NULL);
    return 0;
}
