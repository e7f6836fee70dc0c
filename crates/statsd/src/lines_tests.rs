use super::*;
use crate::pack::Packer;

fn id(kind: Kind, name: &str, tags: &[(&str, &str)]) -> Id {
    let tags: Vec<(Box<str>, Box<str>)> =
        tags.iter().map(|(k, v)| (Box::from(*k), Box::from(*v))).collect();
    Id { kind, name: name.into(), tags: tags.into() }
}

fn counted(name: &str, sum: f64, tags: &[(&str, &str)]) -> Reading {
    Reading { id: id(Kind::Counter, name, tags), value: Value::Count(sum) }
}

fn gauge(name: &str, value: f64, set: bool) -> Reading {
    Reading { id: id(Kind::Gauge, name, &[]), value: Value::Gauge { value, set } }
}

fn values(kind: Kind, kept: &[f64], count: f64) -> Reading {
    let value = Value::Values { kept: kept.to_vec(), count, sum: 0.0, min: 0.0, max: 0.0 };
    Reading { id: id(kind, "t", &[]), value }
}

fn plain() -> Lines {
    Lines::new(&Config { dialect: Dialect::StatsD, packed: false, ..Config::off() })
}

fn dog() -> Lines {
    Lines::new(&Config::off())
}

/// All lines, and the readings that were refused.
fn said(lines: &mut Lines, readings: &[Reading]) -> (String, Vec<(Reason, u64)>) {
    let mut packer = Packer::new(60_000);
    readings.iter().for_each(|r| lines.reading(r, 1_700_000_000, &mut packer));
    let packets = packer.packets.iter().map(|p| String::from_utf8_lossy(&p.bytes).into_owned());
    (packets.collect::<Vec<_>>().join("\n"), packer.refused)
}

fn text_of(lines: &mut Lines, readings: &[Reading]) -> String {
    let (text, refused) = said(lines, readings);
    assert_eq!(refused, []);
    text
}

#[test]
fn a_counter_with_everything() {
    let config = Config {
        prefix: "my app.".into(),
        tags: vec![("env".into(), "prod".into()), ("flag".into(), String::new())],
        container: Some("abc".into()),
        timestamps: true,
        ..Config::off()
    };
    let reading = counted("page:views", 2.5, &[("route", "/a,b|c"), ("k:ey", "x:y"), ("", "no")]);
    let wanted = "my_app.page_views:2.5|c|#env:prod,flag,route:/a_b_c,k_ey:x:y|c:abc|T1700000000";
    assert_eq!(text_of(&mut Lines::new(&config), std::slice::from_ref(&reading)), wanted);
    let config = Config { dialect: Dialect::StatsD, timestamps: false, ..config };
    let mut lines = Lines::new(&config);
    assert_eq!(text_of(&mut lines, &[reading]), "my_app.page_views:2.5|c");
    assert_eq!(lines.without_tags, 1);
}

#[test]
fn no_name_passes_for_another_kind_of_message() {
    let readings = [counted("_scale", 1.0, &[]), counted("_e{1,1}", 1.0, &[])];
    assert_eq!(text_of(&mut dog(), &readings), "scale:1|c\ne{1_1}:1|c");
    assert_eq!(text_of(&mut plain(), &readings), "_scale:1|c\n_e{1_1}:1|c");
    assert_eq!(said(&mut dog(), &[counted("", 1.0, &[])]).1, [(Reason::Invalid, 1)]);
}

#[test]
fn what_is_not_a_number_is_refused() {
    let readings = [
        counted("c", f64::NAN, &[]),
        gauge("g", f64::INFINITY, true),
        values(Kind::Timing, &[1.0, f64::NAN], 2.0),
    ];
    assert_eq!(said(&mut dog(), &readings), ("t:1|ms".into(), vec![(Reason::Invalid, 3)]));
}

#[test]
fn a_gauge_below_zero_is_reset_first_in_plain_statsd_only() {
    let readings = [gauge("g", 5.0, true), gauge("g", -5.5, true), gauge("g", 0.0, true)];
    assert_eq!(text_of(&mut plain(), &readings), "g:5|g\ng:0|g\ng:-5.5|g\ng:0|g");
    assert_eq!(text_of(&mut dog(), &readings), "g:5|g\ng:-5.5|g\ng:0|g");
}

#[test]
fn deltas_of_a_gauge_are_deltas_in_statsd_and_its_value_in_dogstatsd() {
    let readings = [
        gauge("g", 3.0, false),
        gauge("g", -4.0, false),
        gauge("g", 10.0, true),
        gauge("g", 0.0, false),
        gauge("g", 2.0, false),
    ];
    assert_eq!(text_of(&mut plain(), &readings), "g:+3|g\ng:-4|g\ng:10|g\ng:+0|g\ng:+2|g");
    assert_eq!(text_of(&mut dog(), &readings), "g:3|g\ng:-1|g\ng:10|g\ng:10|g\ng:12|g");
}

#[test]
fn gauges_remembered_are_bounded_and_deltas_past_it_refused() {
    let mut lines = dog();
    for n in 0..GAUGES {
        text_of(&mut lines, &[gauge(&format!("g{n}"), 1.0, false)]);
    }
    let refused = vec![(Reason::Unsupported, 1)];
    let past = [gauge("one more", 1.0, false), gauge("one more", 7.0, true)];
    assert_eq!(said(&mut lines, &past), ("one_more:7|g".into(), refused));
    assert_eq!(text_of(&mut lines, &[gauge("g3", 1.0, false)]), "g3:2|g");
}

#[test]
fn values_are_packed_in_dogstatsd_and_one_a_line_in_statsd() {
    let kept = [1.0, 2.5, 3.0];
    for (kind, letter) in [(Kind::Timing, "ms"), (Kind::Histogram, "h"), (Kind::Distribution, "d")]
    {
        let reading = [values(kind, &kept, 3.0)];
        assert_eq!(text_of(&mut dog(), &reading), format!("t:1:2.5:3|{letter}"));
        assert_eq!(text_of(&mut plain(), &reading), "t:1|ms\nt:2.5|ms\nt:3|ms");
    }
    let unpacked = Config { packed: false, ..Config::off() };
    let text = text_of(&mut Lines::new(&unpacked), &[values(Kind::Histogram, &kept, 3.0)]);
    assert_eq!(text, "t:1|h\nt:2.5|h\nt:3|h");
    let negative = said(&mut plain(), &[values(Kind::Timing, &[-1.0, 1.0], 2.0)]);
    assert_eq!(negative, ("t:1|ms".into(), vec![(Reason::Invalid, 1)]));
}

#[test]
fn kept_values_stand_for_all_that_came() {
    let ten = [values(Kind::Histogram, &[1.0, 2.0, 3.0], 10.0)];
    assert_eq!(text_of(&mut dog(), &ten), "t:1:2|h|@0.3333333333333333\nt:3|h|@0.25");
    let sampled = [values(Kind::Timing, &[1.0, 2.0], 20.0)];
    assert_eq!(text_of(&mut dog(), &sampled), "t:1:2|ms|@0.1");
    assert_eq!(text_of(&mut plain(), &sampled), "t:1|ms|@0.1\nt:2|ms|@0.1");
    let odd = [values(Kind::Timing, &[1.0, 2.0], 6.6666)];
    let text = text_of(&mut dog(), &odd);
    let rate: f64 = text.split('@').nth(1).and_then(|r| r.parse().ok()).expect("a rate");
    assert!((2.0 / rate - 6.6666).abs() < 1e-9, "{text}");
    for (kept, count) in [(7usize, 23u64), (1, 1_000_003), (1000, 1001), (64, 64), (3, 2)] {
        let all: Vec<f64> = (0..kept).map(|n| n as f64).collect();
        let groups = weights(&all, count as f64);
        let weighted: f64 = groups.iter().map(|(w, v)| w * v.len() as f64).sum();
        assert_eq!(weighted, count.max(kept as u64) as f64);
        assert_eq!(groups.iter().map(|g| g.1.len()).sum::<usize>(), kept);
    }
}

#[test]
fn a_packed_line_never_exceeds_the_datagram() {
    let config = Config { packet_bytes: 40, ..Config::off() };
    let mut lines = Lines::new(&config);
    let kept: Vec<f64> = (0..500).map(|n| f64::from(n) * 1.5).collect();
    let mut packer = Packer::new(40);
    lines.reading(&values(Kind::Distribution, &kept, 500.0), 0, &mut packer);
    assert_eq!(packer.refused, []);
    let mut back = Vec::new();
    for packet in &packer.packets {
        assert!(packet.bytes.len() <= 40);
        let text = String::from_utf8_lossy(&packet.bytes).into_owned();
        for line in text.lines() {
            let values = line.strip_prefix("t:").and_then(|l| l.strip_suffix("|d"));
            let values = values.expect("its form").split(':');
            back.extend(values.map(|v| v.parse::<f64>().expect("a number")));
        }
    }
    assert_eq!(back, kept);
}

#[test]
fn members_of_a_set_cannot_break_a_line() {
    let members = vec!["a:b".into(), "c|d".into(), "e\nf".into()];
    let value = Value::Members { members, refused: 0 };
    let reading = [Reading { id: id(Kind::Set, "s", &[("k", "v")]), value }];
    assert_eq!(text_of(&mut dog(), &reading), "s:a:b|s|#k:v\ns:c_d|s|#k:v\ns:e_f|s|#k:v");
    let mut lines = plain();
    assert_eq!(text_of(&mut lines, &reading), "s:a_b|s\ns:c_d|s\ns:e_f|s");
    assert_eq!(lines.without_tags, 3);
}

#[test]
fn a_value_of_another_kind_is_refused() {
    let odd = Reading { id: id(Kind::Counter, "c", &[]), ..values(Kind::Timing, &[1.0], 1.0) };
    assert_eq!(said(&mut dog(), &[odd]).1, [(Reason::Invalid, 1)]);
}
