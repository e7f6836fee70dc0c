//! What the records hold, for the META chunk: with it a capture explains itself.

/// The record kinds and their fields with units, as JSON.
pub const SCHEMA_JSON: &str = concat!(
    r#"{"word_bits":64,"header":["kind:8","words:8","flags:16","name:32"],"clock":"CLOCK_MONOTONIC ns","#,
    r#""records":{"event":["t_ns","request","attributes"],"#,
    r#""span":["begin_ns","end_ns","request","attributes"],"#,
    r#""request_begin":["t_ns","request","started_ns"],"request_end":["begin_ns","end_ns","request","attributes"],"#,
    r#""sample":["t_ns","tid|gil_holder","wall_ns","cpu_ns","run_delay_ns","#,
    r#""wait:8|holder_source:8|call:16|lock_holder:32","target","timeout_ns","running_task","lock"],"#,
    r#""off_cpu":["out_ns","in_ns"],"gc":["begin_ns","end_ns","collected"],"vital":["t_ns","f64"],"#,
    r#""task":["queued_ns","begin_ns","end_ns","request"],"thread":["tid|serial","sequence"],"metric":["from_ns","to_ns","f64s","attributes"],"#,
    r#""await":["t_ns","request","task","await_kind:8|holder_source:8","holder_task","target","timeout_ns"],"#,
    r#""trace":["t_ns","request","trace_high","trace_low","span","parent","attributes"],"#,
    r#""link":["t_ns","request","span","trace_high","trace_low","linked_span","attributes"],"#,
    r#""native_stack":["t_ns","tid","offset","code:32|line:32 ..."],"wake":["t_ns","waker"],"#,
    r#""again":["tid","record"],"suspension":["out_ns","in_ns","request"]}}"#
);
