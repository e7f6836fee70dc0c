// dashcam: the black box of a running service, for C (C99 and later) and C++.
//
// Convert each text into a name once, with dashcam_name; then:
//
//     dashcam_setting settings[] = {{"service", "billy"}, {"slow", "500ms"}};
//     dashcam_start(settings, 2);
//     dashcam_name_t checkout = dashcam_name("GET /checkout"), user = dashcam_name("user");
//     dashcam_request request = dashcam_request_begin(checkout);
//     ...
//     dashcam_attribute attributes[] = {dashcam_integer(user, 42)};
//     dashcam_request_end(request, 0, attributes, 1);
//
// Every function may be called at any time from any thread: before dashcam_start, after
// dashcam_stop and in a forked child a call returns its code and does nothing else. Codes are
// negative for errors; no error is a reason to stop a service. Functions that may be called in a
// signal handler say so; after dlopen they may be called there only on threads that called the
// library before (the C library allocates a thread's variables at the first use). Compile with
// `pkg-config --cflags --libs dashcam`. The library remains loaded after dlclose, since its threads
// run in it.
//
// Generated from c/src by `cargo test -p dashcam-c`; do not edit.

#ifndef DASHCAM_H
#define DASHCAM_H
