static inline dashcam_attribute dashcam_integer(dashcam_name_t key, int64_t integer) {
    dashcam_attribute attribute;
    attribute.key = key;
    attribute.kind = DASHCAM_INTEGER;
    attribute.value.integer = integer;
    return attribute;
}

static inline dashcam_attribute dashcam_number(dashcam_name_t key, double number) {
    dashcam_attribute attribute;
    attribute.key = key;
    attribute.kind = DASHCAM_NUMBER;
    attribute.value.number = number;
    return attribute;
}

static inline dashcam_attribute dashcam_truth(dashcam_name_t key, int truth) {
    dashcam_attribute attribute;
    attribute.key = key;
    attribute.kind = DASHCAM_TRUTH;
    attribute.value.truth = truth;
    return attribute;
}

// The text is read when the attribute is recorded.
static inline dashcam_attribute dashcam_text(dashcam_name_t key, const char *text) {
    dashcam_attribute attribute;
    attribute.key = key;
    attribute.kind = DASHCAM_TEXT;
    attribute.value.text = text;
    return attribute;
}

// The series of that name without tags; as dashcam_metric.
static inline dashcam_metric_t dashcam_counter(const char *name) {
    return dashcam_metric(DASHCAM_COUNTER, name, NULL, 0, 1.0);
}

static inline dashcam_metric_t dashcam_gauge(const char *name) {
    return dashcam_metric(DASHCAM_GAUGE, name, NULL, 0, 1.0);
}

static inline dashcam_metric_t dashcam_timing(const char *name) {
    return dashcam_metric(DASHCAM_TIMING, name, NULL, 0, 1.0);
}

static inline dashcam_metric_t dashcam_histogram(const char *name) {
    return dashcam_metric(DASHCAM_HISTOGRAM, name, NULL, 0, 1.0);
}

static inline dashcam_metric_t dashcam_distribution(const char *name) {
    return dashcam_metric(DASHCAM_DISTRIBUTION, name, NULL, 0, 1.0);
}

static inline dashcam_metric_t dashcam_set(const char *name) {
    return dashcam_metric(DASHCAM_SET, name, NULL, 0, 1.0);
}

#endif /* DASHCAM_H */
