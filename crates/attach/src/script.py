# Written by `dashcam attach`, and run by the interpreter of a live process, on a thread of the
# program. It starts the recorder on a thread of its own, answers in a file, and raises nothing.


def _begin(folder, pid, package, settings, tree):
    import _thread
    import os
    import time

    began = time.perf_counter_ns()
    if os.getpid() != pid:  # a child that was forked in between has its parent's request
        return
    try:
        os.mkdir(folder + "/taken")
    except OSError:  # another thread has taken it, or it was given up
        return
    held = {}

    def answer(state):
        import json

        state.update(held)
        state["start_us"] = (time.perf_counter_ns() - began) // 1000
        # The folder is this user's alone. It is gone if nobody waits for the answer any more. Not by
        # `open`, which a program may have replaced.
        file = os.open(folder + "/answer.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(file, json.dumps(state).encode())
        os.close(file)
        os.rename(folder + "/answer.new", folder + "/answer.json")

    def load():
        # As `import dashcam` with the folder on sys.path, which the program may read, replace or
        # watch meanwhile, and which may lead to another dashcam.
        import sys
        from importlib import _bootstrap, util

        own = package + "/dashcam"
        spec = util.spec_from_file_location("dashcam", own + "/__init__.py", submodule_search_locations=[own])
        # The lock of every import of this name: another thread may import it, too.
        with _bootstrap._ModuleLockManager("dashcam"):
            if "dashcam" not in sys.modules:
                _bootstrap._load_unlocked(spec)

    def start():
        try:
            load()
            from dashcam import _attached

            state = _attached.start(settings, tree)
        except BaseException as error:
            state = {"ok": False, "error": "%s: %s" % (type(error).__name__, error)}
        try:
            answer(state)
        except BaseException:
            pass

    # Under gevent it is another function, whose thread would not be one.
    if type(_thread.start_new_thread) is type(len):
        try:
            _thread.start_new_thread(start, ())
        except RuntimeError as error:
            held["held_us"] = 0
            answer({"ok": False, "error": "no thread could be started: %s" % error})
    else:
        start()
    held["held_us"] = (time.perf_counter_ns() - began) // 1000


try:
    _begin(*ARGUMENTS)  # noqa: F821  the line in front of the first one
except KeyboardInterrupt:
    # The program's own, from its terminal: it gets it right behind this.
    __import__("_thread").interrupt_main()
except BaseException:
    pass
