/* Prints where CPython keeps what the Python stack reader reads, one "name offset" a line, for the
 * interpreter whose headers it is compiled against; -1 means the version has no such field.
 *
 * The constants in src/python_stacks/layout/versions.rs were made with it, and the test there
 * (the_tables_agree_with_the_headers) compiles it again for every version found and compares:
 *
 *   cc -DPy_BUILD_CORE -I$P/include/python3.11 -I$P/include/python3.11/internal \
 *      layout_check.c -o check && ./check
 *
 * `./check published` prints the words of _Py_DebugOffsets instead (3.14 and later).
 *
 * It is never linked into anything that ships. Lock objects are not in the headers: their layout
 * (PyObject_HEAD, lock word, and for RLock the owner) is checked by the lock tests instead.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#include <code.h>
#else
#include <internal/pycore_frame.h>
#endif
#include <internal/pycore_interp.h>
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_debug_offsets.h>
#include <internal/pycore_stackref.h>
#endif
#include <internal/pycore_runtime.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void show(const char *name, long offset) { printf("%s %ld\n", name, offset); }

static void runtime_and_threads(void) {
    show("runtime_interpreters", offsetof(_PyRuntimeState, interpreters.head));
    show("runtime_main", offsetof(_PyRuntimeState, interpreters.main));
    show("interpreter_next", offsetof(PyInterpreterState, next));
#if PY_VERSION_HEX >= 0x030B0000
    show("interpreter_threads", offsetof(PyInterpreterState, threads.head));
#else
    show("interpreter_threads", offsetof(PyInterpreterState, tstate_head));
#endif
#if PY_VERSION_HEX >= 0x030C0000
    show("runtime_gil", -1);
    show("interpreter_gil", offsetof(PyInterpreterState, ceval.gil));
#else
    show("runtime_gil", offsetof(_PyRuntimeState, ceval.gil));
    show("interpreter_gil", -1);
#endif
#if PY_VERSION_HEX >= 0x030C0000
    show("interpreter_modules", offsetof(PyInterpreterState, imports.modules));
#else
    show("interpreter_modules", offsetof(PyInterpreterState, modules));
#endif
    show("gil_interval", offsetof(struct _gil_runtime_state, interval));
    show("gil_holder", offsetof(struct _gil_runtime_state, last_holder));
    show("gil_locked", offsetof(struct _gil_runtime_state, locked));
    show("gil_switches", offsetof(struct _gil_runtime_state, switch_number));
    show("gil_cond", offsetof(struct _gil_runtime_state, cond));
    show("thread_next", offsetof(PyThreadState, next));
    show("thread_ident", offsetof(PyThreadState, thread_id));
#if PY_VERSION_HEX >= 0x030B0000
    show("thread_native", offsetof(PyThreadState, native_thread_id));
    show("thread_chunk", offsetof(PyThreadState, datastack_chunk));
    show("thread_chunk_top", offsetof(PyThreadState, datastack_top));
#else
    show("thread_native", -1);
    show("thread_chunk", -1);
    show("thread_chunk_top", -1);
#endif
#if PY_VERSION_HEX >= 0x030D0000
    show("thread_frame", offsetof(PyThreadState, current_frame));
    show("cframe_frame", -1);
#elif PY_VERSION_HEX >= 0x030B0000
    show("thread_frame", offsetof(PyThreadState, cframe));
    show("cframe_frame", offsetof(_PyCFrame, current_frame));
#else
    show("thread_frame", offsetof(PyThreadState, frame));
    show("cframe_frame", -1);
#endif
#if PY_VERSION_HEX >= 0x030A0000 && PY_VERSION_HEX < 0x030B0000
    show("thread_cframe", offsetof(PyThreadState, cframe));
#else
    show("thread_cframe", -1);
#endif
#if PY_VERSION_HEX >= 0x030F0000
    show("thread_base_frame", offsetof(PyThreadState, base_frame));
#else
    show("thread_base_frame", -1);
#endif
}

static void frames(void) {
#if PY_VERSION_HEX >= 0x030D0000
    show("frame_code", offsetof(_PyInterpreterFrame, f_executable));
    show("frame_function", offsetof(_PyInterpreterFrame, f_funcobj));
    show("frame_instruction", offsetof(_PyInterpreterFrame, instr_ptr));
#elif PY_VERSION_HEX >= 0x030B0000
    show("frame_code", offsetof(_PyInterpreterFrame, f_code));
    show("frame_function", -1);
    show("frame_instruction", offsetof(_PyInterpreterFrame, prev_instr));
#else
    show("frame_code", offsetof(PyFrameObject, f_code));
    show("frame_function", -1);
    show("frame_instruction", offsetof(PyFrameObject, f_lasti));
#endif
#if PY_VERSION_HEX >= 0x030B0000
    show("frame_previous", offsetof(_PyInterpreterFrame, previous));
    show("frame_owner", offsetof(_PyInterpreterFrame, owner));
    show("frame_object", offsetof(_PyInterpreterFrame, frame_obj));
    show("frame_object_frame", offsetof(PyFrameObject, f_frame));
    show("frame_object_data", offsetof(PyFrameObject, _f_frame_data));
    show("frame_locals", offsetof(_PyInterpreterFrame, localsplus));
    show("frame_value_stack", -1);
    show("frame_blocks", -1);
    show("frame_block_count", -1);
    show("frame_generator", -1);
#else
    show("frame_previous", offsetof(PyFrameObject, f_back));
    show("frame_owner", -1);
    show("frame_object", -1);
    show("frame_object_frame", -1);
    show("frame_object_data", -1);
    show("frame_locals", offsetof(PyFrameObject, f_localsplus));
    show("frame_value_stack", offsetof(PyFrameObject, f_valuestack));
    show("frame_blocks", offsetof(PyFrameObject, f_blockstack));
    show("frame_block_count", offsetof(PyFrameObject, f_iblock));
    show("frame_generator", offsetof(PyFrameObject, f_gen));
#endif
}

static void suspended(void) {
#if PY_VERSION_HEX >= 0x030E0000
    show("frame_top", offsetof(_PyInterpreterFrame, stackpointer));
    show("reference_tag", Py_INT_TAG | Py_TAG_REFCNT);
#elif PY_VERSION_HEX >= 0x030B0000
    show("frame_top", offsetof(_PyInterpreterFrame, stacktop));
    show("reference_tag", 0);
#elif PY_VERSION_HEX >= 0x030A0000
    show("frame_top", offsetof(PyFrameObject, f_stackdepth));
    show("reference_tag", 0);
#else
    show("frame_top", offsetof(PyFrameObject, f_stacktop));
    show("reference_tag", 0);
#endif
#if PY_VERSION_HEX >= 0x030B0000
    show("generator_frame", offsetof(PyGenObject, gi_iframe));
    show("generator_state", offsetof(PyGenObject, gi_frame_state));
    show("generator_running", FRAME_EXECUTING & 0xff);
#if PY_VERSION_HEX >= 0x030D0000
    show("generator_awaiting", FRAME_SUSPENDED_YIELD_FROM & 0xff);
#else
    show("generator_awaiting", FRAME_SUSPENDED & 0xff);
#endif
#else
    show("generator_frame", offsetof(PyGenObject, gi_frame));
    show("generator_state", -1);
    show("generator_running", -1);
    show("generator_awaiting", -1);
#endif
    show("function_code", offsetof(PyFunctionObject, func_code));
    show("function_closure", offsetof(PyFunctionObject, func_closure));
    show("type_flags", offsetof(PyTypeObject, tp_flags));
    show("type_base", offsetof(PyTypeObject, tp_base));
    show("tuple_items", offsetof(PyTupleObject, ob_item));
}

static void code_and_strings(void) {
    show("instruction_unit", PY_VERSION_HEX >= 0x030A0000 ? 2 : 1);
    show("code_first_line", offsetof(PyCodeObject, co_firstlineno));
    show("code_stack_size", offsetof(PyCodeObject, co_stacksize));
    show("code_file", offsetof(PyCodeObject, co_filename));
    show("code_name", offsetof(PyCodeObject, co_name));
    show("code_names", offsetof(PyCodeObject, co_names));
#if PY_VERSION_HEX >= 0x030B0000
    show("code_locals", offsetof(PyCodeObject, co_nlocalsplus));
    show("code_qualname", offsetof(PyCodeObject, co_qualname));
    show("code_exceptions", offsetof(PyCodeObject, co_exceptiontable));
    show("code_first_traceable", offsetof(PyCodeObject, _co_firsttraceable));
    show("code_instructions", offsetof(PyCodeObject, co_code_adaptive));
#else
    show("code_locals", -1);
    show("code_qualname", -1);
    show("code_exceptions", -1);
    show("code_first_traceable", -1);
    show("code_instructions", -1);
#endif
#if PY_VERSION_HEX >= 0x030A0000
    show("code_lines", offsetof(PyCodeObject, co_linetable));
#else
    show("code_lines", offsetof(PyCodeObject, co_lnotab));
#endif
    show("ascii_data", sizeof(PyASCIIObject));
    show("compact_data", sizeof(PyCompactUnicodeObject));
}

#if PY_VERSION_HEX >= 0x030E0000
/* What such an interpreter publishes about itself, a word a line. */
static void published(void) {
    _Py_DebugOffsets offsets = _Py_DebugOffsets_INIT(_Py_Debug_Cookie);
    const uint64_t *words = (const uint64_t *)&offsets;
    for (size_t i = 0; i < sizeof(offsets) / sizeof(*words); i++) printf("%llu\n", (unsigned long long)words[i]);
}
#else
static void published(void) {}
#endif

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "published")) {
        published();
        return 0;
    }
    runtime_and_threads();
    frames();
    suspended();
    code_and_strings();
    return 0;
}
