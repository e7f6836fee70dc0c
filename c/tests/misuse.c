// Wrong calls give codes and texts, at every moment of a program's life.
#include "check.h"

static const char *const WRONG_TEXT = "caf\xe9";

static void everything(int wanted) {
    dashcam_name_t name = dashcam_name("name");
    SAME(name != 0, 1);
    SAME(dashcam_event(name, NULL, 0), wanted);
    dashcam_span span = dashcam_span_begin(name);
    SAME(span.epoch, 0);
    SAME(dashcam_span_end(span, 0, NULL, 0), wanted);
    SAME(dashcam_request_end(dashcam_request_begin(name), 0, NULL, 0), wanted);
    SAME(dashcam_task_end(dashcam_task_begin(name, 1, 0)), wanted);
    SAME(dashcam_snap("reason", NULL, 0), wanted);
    SAME(dashcam_thread_name("name"), wanted);
    SAME(strlen(dashcam_last_error()) > 10, 1);
}

static void settings(void) {
    dashcam_setting setting = {"memory", "lots"};
    SAME(dashcam_start(&setting, 1), DASHCAM_E_SETTING);
    SAME(strstr(dashcam_last_error(), "lots") != NULL, 1);
    setting.name = "colour";
    SAME(dashcam_start(&setting, 1), DASHCAM_E_SETTING);
    setting.value = NULL;
    SAME(dashcam_start(&setting, 1), DASHCAM_E_NULL);
    setting.value = WRONG_TEXT;
    SAME(dashcam_start(&setting, 1), DASHCAM_E_TEXT);
    SAME(dashcam_start(NULL, 1), DASHCAM_E_NULL);
}

static void while_on(void) {
    char small[8], status[8192];
    dashcam_name_t name = dashcam_name("name");
    SAME(dashcam_start(NULL, 0), DASHCAM_ALREADY);
    SAME(dashcam_name(NULL), 0);
    SAME(dashcam_name(WRONG_TEXT), 0);
    SAME(dashcam_thread_name(NULL), DASHCAM_E_NULL);
    SAME(dashcam_event(0, NULL, 0), DASHCAM_E_HANDLE);
    SAME(dashcam_event(4000000000u, NULL, 0), DASHCAM_E_HANDLE);
    SAME(dashcam_event(name, NULL, 1), DASHCAM_E_NULL);
    dashcam_attribute attribute = dashcam_text(name, NULL);
    SAME(dashcam_event(name, &attribute, 1), DASHCAM_OK);
    attribute = dashcam_text(name, WRONG_TEXT);
    SAME(dashcam_event(name, &attribute, 1), DASHCAM_E_TEXT);
    attribute.kind = 77;
    SAME(dashcam_event(name, &attribute, 1), DASHCAM_E_HANDLE);
    attribute = dashcam_integer(12345, 1);
    SAME(dashcam_event(name, &attribute, 1), DASHCAM_E_HANDLE);
    dashcam_attribute many[20];
    for (int i = 0; i < 20; i++) many[i] = dashcam_integer(name, i);
    SAME(dashcam_event(name, many, 20), DASHCAM_OK);
    dashcam_span zero = {0, 0, 0, 0, 0};
    SAME(dashcam_span_end(zero, 0, NULL, 0), DASHCAM_E_HANDLE);
    dashcam_request request = dashcam_request_begin(name);
    SAME(dashcam_request_end(request, 0, &attribute, 1), DASHCAM_E_HANDLE);
    SAME(dashcam_request_end(request, 0, NULL, 0), DASHCAM_E_HANDLE);
    SAME(dashcam_request_begin(0).id, 0);
    SAME(dashcam_status(NULL, 10), DASHCAM_E_NULL);
    SAME(dashcam_status(small, sizeof small), DASHCAM_E_SMALL);
    SAME(strlen(small), 7);
    SAME(dashcam_status(status, sizeof status), DASHCAM_OK);
    SAME(strstr(status, "\"on\":true") != NULL, 1);
    SAME(dashcam_snap(WRONG_TEXT, NULL, 0), DASHCAM_E_TEXT);
    SAME(dashcam_snap(NULL, small, sizeof small), DASHCAM_E_SMALL);
}

int main(int argc, char **argv) {
    char status[32];
    SAME(argc, 2);
    SAME(strcmp(dashcam_last_error(), ""), 0);
    everything(DASHCAM_E_OFF);
    SAME(dashcam_status(status, sizeof status), DASHCAM_OK);
    SAME(strcmp(status, "{\"on\":false}"), 0);
    SAME(dashcam_stop(), DASHCAM_OK);
    settings();
    everything(DASHCAM_E_OFF);
    start(argv[1]);
    while_on();
    dashcam_name_t name = dashcam_name("open over the stop");
    dashcam_request open = dashcam_request_begin(name);
    SAME(dashcam_stop(), DASHCAM_OK);
    SAME(dashcam_request_end(open, 0, NULL, 0), DASHCAM_E_OFF);
    everything(DASHCAM_E_OFF);
    start(argv[1]);
    SAME(dashcam_span_begin(name).request, 0);
    SAME(dashcam_span_end(dashcam_span_begin(name), 0, NULL, 0), DASHCAM_OK);
    // One request ended, without its wrong attributes; the other's end came while off. One span
    // ended, one is open.
    saved(2, 2, 2, 0);
    return 0;
}
