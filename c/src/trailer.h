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

#endif /* DASHCAM_H */
