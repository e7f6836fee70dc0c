/* Prints the offsets of the ring of pending calls, as src/ring/layout.rs has them. Compile with
 * -DPy_BUILD_CORE against the headers of one CPython version; the test there does. */
#include <Python.h>
#include <stddef.h>
#include <stdio.h>

#include "pycore_interp.h"
#include "pycore_runtime.h"

#define RUNTIME(field) offsetof(_PyRuntimeState, field)
#define INTERPRETER(field) offsetof(PyInterpreterState, field)
#define THREAD(field) offsetof(PyThreadState, field)
#define PENDING(field) offsetof(struct _pending_calls, field)
#define SIZE(type, field) sizeof(((type *)0)->field)

int main(void) {
    printf("initialized %zu\nfinalizing %zu\n", RUNTIME(initialized), RUNTIME(_finalizing));
    printf("main_interpreter %zu\nmain_thread %zu\n", RUNTIME(interpreters.main), RUNTIME(main_thread));
#if PY_VERSION_HEX < 0x030B0000
    printf("first_thread %zu\n", INTERPRETER(tstate_head));
#else
    printf("first_thread %zu\n", INTERPRETER(threads.head));
#endif
#if PY_VERSION_HEX < 0x030D0000
    printf("recursion_limit %zu\n", INTERPRETER(ceval.recursion_limit));
#else
    printf("recursion_limit -\n");
#endif
    printf("thread %zu %zu %zu\n", THREAD(next), THREAD(interp), THREAD(thread_id));
#if PY_VERSION_HEX < 0x030C0000
    printf("pending interpreter %zu\n", INTERPRETER(ceval.pending));
#else
    printf("pending runtime %zu\n", RUNTIME(ceval.pending_mainthread));
#endif
#if PY_VERSION_HEX < 0x030D0000
    printf("breaker %zu\nlock %zu\n", INTERPRETER(ceval.eval_breaker), PENDING(lock));
#if PY_VERSION_HEX < 0x030C0000
    printf("busy -\n");
#else
    printf("busy %zu\n", PENDING(busy));
#endif
    printf("to_do %zu\nmax -\n", PENDING(calls_to_do));
#else
    printf("breaker %zu %zu\n", INTERPRETER(threads.main), THREAD(eval_breaker));
    printf("lock %zu\nbusy %zu\n", PENDING(mutex), PENDING(handling_thread));
    printf("to_do %zu\nmax %zu\n", PENDING(npending), PENDING(max));
#endif
    printf("calls %zu\ncell %zu\n", PENDING(calls), SIZE(struct _pending_calls, calls[0]));
    printf("cells %zu\n", SIZE(struct _pending_calls, calls) / SIZE(struct _pending_calls, calls[0]));
#if PY_VERSION_HEX < 0x030D0000
    printf("first %zu\nlast %zu\n", PENDING(first), PENDING(last));
#else
    printf("first %zu\nlast %zu\n", PENDING(first), PENDING(next));
#endif
    return 0;
}
