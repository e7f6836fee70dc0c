//! `dashcam why --json`: schema 1.

use diagnosis::{Diagnosis, Finding, Suspect};
use serde_json::{json, Value};

use crate::explanation_json::explained;
use crate::json_values::{ms, place_with_source, round};

/// The verdict as JSON; `file` is the capture's path.
pub fn to_json(diagnosis: &Diagnosis<'_>, file: &str) -> Value {
    let capture = diagnosis.capture;
    let meta = &capture.meta;
    let sources: serde_json::Map<String, Value> =
        meta.sources.iter().map(|(name, state)| (name.clone(), json!(state))).collect();
    let losses = meta.losses.iter().filter(|(_, n)| *n > 0);
    let mut losses: Vec<Value> =
        losses.map(|(what, count)| json!({"what": what, "count": count})).collect();
    losses.extend(capture.damage.iter().map(|text| json!({"what": text, "count": 1})));
    let findings = diagnosis.findings.iter().enumerate();
    json!({
        "schema": 1,
        "capture": {
            "file": file,
            "service": meta.service,
            "host": meta.host,
            "pid": meta.pid,
            "reason": meta.reason,
            "from_ns": meta.from_ns,
            "to_ns": meta.to_ns,
            "common_horizon_ns": capture.common_horizon_ns(),
            "sources": sources,
            "losses": losses,
            "observations_read": capture.excerpt.as_ref().map(|e| e.read),
            "observations": capture.excerpt.as_ref().map(|e| e.all),
        },
        "requests": {
            "total": diagnosis.total,
            "slow": diagnosis.slow,
            "threshold_ms": limit_ms(diagnosis.threshold_ns),
            "typical_ms": diagnosis.typical_ns.map(ms),
            "failed": diagnosis.failed,
            "end_lost": diagnosis.endless,
            "older": diagnosis.older,
            "worst_ms": ms(diagnosis.worst_ns),
            "excess_ns": diagnosis.excess_ns,
            "slow_examined": diagnosis.examined.0,
            "normal_examined": diagnosis.examined.1,
        },
        "otherwise": diagnosis.suspects.iter().map(suspect).collect::<Vec<Value>>(),
        "causes": findings.map(|(i, f)| cause(diagnosis, i + 1, f)).collect::<Vec<Value>>(),
        "unexplained_share": round(diagnosis.unexplained_share),
    })
}

fn cause(diagnosis: &Diagnosis<'_>, rank: usize, finding: &Finding) -> Value {
    let evidence = finding.evidence.iter();
    let evidence: Vec<Value> = evidence
        .map(|e| json!({"what": e.what, "value": e.value, "unit": e.unit.text()}))
        .collect();
    let mut cause = json!({
        "rank": rank,
        "cause": finding.cause.text(),
        "share": round(finding.share),
        "excess_ns": (diagnosis.excess_ns as f64 * finding.share).round() as u64,
        "confidence": finding.confidence.text(),
        "fingerprint": finding.fingerprint,
        "slow_requests": finding.slow_requests,
        "normal_requests": finding.normal_requests,
        "first_ns": finding.seen_ns.first(),
        "last_ns": finding.seen_ns.last(),
        "threads": finding.threads,
        "summary": finding.summary,
        "where": place_with_source(diagnosis.capture, finding.place.as_ref()),
        "culprit": place_with_source(diagnosis.capture, finding.culprit.as_ref()),
        "target": finding.target(),
        "path": finding.path,
        "trace_ids": finding.trace_ids,
        "evidence": evidence,
        "missing": finding.missing,
        "advice": finding.advice,
    });
    if let (Some(explanation), Some(cause)) = (&finding.explanation, cause.as_object_mut()) {
        cause.insert("explain".to_owned(), explained(diagnosis.capture, explanation));
    }
    cause
}

fn suspect((what, ms): &(Suspect, f64)) -> Value {
    json!({"what": what.text(), "ms": (ms * 100.0).round() / 100.0})
}

fn limit_ms(ns: u64) -> Value {
    if ns == u64::MAX {
        Value::Null
    } else {
        json!(ms(ns))
    }
}
