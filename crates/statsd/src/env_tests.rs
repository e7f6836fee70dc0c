use super::*;

/// With `DASHCAM_STATSD=env`, unless it has another value.
fn loaded(pairs: &[(&str, &str)]) -> Loaded {
    let asked = [("DASHCAM_STATSD", "env")];
    let all = || pairs.iter().chain(&asked);
    load_from(|name| all().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
}

fn fine(pairs: &[(&str, &str)]) -> Config {
    let loaded = loaded(pairs);
    assert_eq!(loaded.complaints, Vec::<String>::new());
    loaded.config
}

fn target(pairs: &[(&str, &str)]) -> String {
    fine(pairs).target.to_string()
}

#[test]
fn nothing_set_or_empty_is_off() {
    assert_eq!(target(&[]), "off");
    assert_eq!(target(&[("STATSD_ADDR", "")]), "off");
    assert_eq!(target(&[("DD_ENV", "prod"), ("STATSD_PREFIX", "x")]), "off");
}

#[test]
fn each_variable_leads_somewhere() {
    assert_eq!(target(&[("STATSD_ADDR", "h:9")]), "udp://h:9");
    assert_eq!(target(&[("STATSD_ADDR", "[::1]:9")]), "udp://[::1]:9");
    assert_eq!(target(&[("STATSD_SOCKET_PATH", "/s")]), "unix:///s");
    assert_eq!(target(&[("DD_AGENT_HOST", "a")]), "udp://a:8125");
    assert_eq!(target(&[("DD_AGENT_HOST", "a"), ("DD_DOGSTATSD_PORT", "9")]), "udp://a:9");
    assert_eq!(target(&[("DD_AGENT_HOST", "::1"), ("DD_DOGSTATSD_PORT", "9")]), "udp://[::1]:9");
    assert_eq!(target(&[("DD_DOGSTATSD_SOCKET", "/s")]), "unix:///s");
    assert_eq!(target(&[("DD_DOGSTATSD_SOCKET", "unixstream:///s")]), "unixstream:///s");
    assert_eq!(target(&[("DD_DOGSTATSD_URL", "unix:///s")]), "unix:///s");
    assert_eq!(target(&[("DD_DOGSTATSD_URL", "udp://a:1")]), "udp://a:1");
    assert_eq!(fine(&[("STATSD_ADDR", "h:9")]).packet_bytes, 1432);
    assert_eq!(fine(&[("STATSD_SOCKET_PATH", "/s")]).packet_bytes, 8192);
}

/// The model's changelog names STATSD_SOCKET while its code reads STATSD_SOCKET_PATH.
#[test]
fn the_socket_is_read_under_the_name_of_the_document_and_of_the_code() {
    assert_eq!(target(&[("STATSD_SOCKET", "/s")]), "unix:///s");
    assert_eq!(target(&[("STATSD_SOCKET_PATH", "/s")]), "unix:///s");
}

#[test]
fn variables_of_other_agents_switch_nothing_on() {
    let all = [("STATSD_ADDR", "h:9"), ("DD_AGENT_HOST", "a"), ("DD_DOGSTATSD_SOCKET", " ")];
    let environment = |own: Option<&'static str>| {
        move |name: &str| match (name, own) {
            ("DASHCAM_STATSD", own) => own.map(str::to_owned),
            _ => all.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()),
        }
    };
    for own in [None, Some(""), Some("off")] {
        assert_eq!(load_from(environment(own)).config.target, Target::Off, "{own:?}");
    }
    assert_eq!(load_from(environment(Some("Env"))).config.target.to_string(), "udp://h:9");
    assert_eq!(passed_over(environment(None)), ["STATSD_ADDR", "DD_AGENT_HOST"]);
    assert_eq!(passed_over(environment(Some("off"))), [""; 0]);
}

#[test]
fn our_own_variable_wins() {
    let all = [("STATSD_ADDR", "h:9"), ("DD_AGENT_HOST", "a"), ("STATSD_SOCKET", "/s")];
    let with = |value| [all.as_slice(), &[("DASHCAM_STATSD", value)]].concat();
    assert_eq!(target(&with("udp://mine:1")), "udp://mine:1");
    assert_eq!(target(&with("unixstream:///mine")), "unixstream:///mine");
    assert_eq!(target(&with("off")), "off");
}

/// `STATSD_ENABLE_AGGREGATION=false` turns aggregation on in the model, which only checks that the
/// variable exists.
#[test]
fn false_is_false_wherever_a_switch_is_read() {
    for no in ["false", "False", "FALSE", "0", "no", "off", " off "] {
        let base = ("STATSD_ADDR", "h:9");
        assert_eq!(target(&[base, ("DASHCAM_STATSD", no)]), "off", "{no}");
        assert_eq!(fine(&[base, ("DASHCAM_STATSD_SELF", no)]).self_every, None, "{no}");
        assert_eq!(fine(&[base, ("STATSD_BATCH_STATISTICS_INTERVAL", no)]).self_every, None);
        assert!(!fine(&[base, ("DASHCAM_STATSD_PACKED", no)]).packed, "{no}");
        assert!(!fine(&[base, ("DASHCAM_STATSD_TIMESTAMPS", no)]).timestamps, "{no}");
        assert_eq!(fine(&[base, ("DD_ORIGIN_DETECTION_ENABLED", no)]).container, None, "{no}");
        let dd = [("DD_AGENT_HOST", "a"), ("DD_DOGSTATSD_DISABLE", no)];
        assert_eq!(target(&dd), "udp://a:8125", "{no}");
    }
    for yes in ["true", "1", "on", "YES"] {
        let base = ("STATSD_ADDR", "h:9");
        assert!(fine(&[base, ("DASHCAM_STATSD_TIMESTAMPS", yes)]).timestamps, "{yes}");
        assert!(fine(&[base, ("DASHCAM_STATSD_SELF", yes)]).self_every.is_some(), "{yes}");
        let dd = [("DD_AGENT_HOST", "a"), ("DD_DOGSTATSD_DISABLE", yes)];
        assert_eq!(target(&dd), "off", "{yes}");
    }
}

#[test]
fn tags_prefix_and_dialect() {
    let config = fine(&[
        ("STATSD_ADDR", "h:9"),
        ("STATSD_PREFIX", "app"),
        ("STATSD_IMPLEMENTATION", "Datadog"),
        ("DD_TAGS", "team:x env:old"),
        ("DD_ENV", "prod"),
        ("DD_SERVICE", "billy"),
        ("DD_VERSION", "1.2"),
        ("DD_ENTITY_ID", "pod-1"),
    ]);
    let tags: Vec<String> = config.tags.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(
        tags,
        ["team=x", "dd.internal.entity_id=pod-1", "env=prod", "service=billy", "version=1.2"]
    );
    assert_eq!((config.prefix.as_str(), config.dialect), ("app", Dialect::DogStatsD));
    assert_eq!(config.container, None, "the entity is named already");
    let tagged = [("STATSD_ADDR", "h:9"), ("STATSD_DEFAULT_TAGS", "a:b:c,flag, d:e ,")];
    let wanted = [("a", "b:c"), ("flag", ""), ("d", "e")].map(|(k, v)| (k.into(), v.into()));
    assert_eq!(fine(&tagged).tags, wanted);
    let plain = fine(&[("STATSD_ADDR", "h:9"), ("STATSD_IMPLEMENTATION", "statsd")]);
    assert_eq!((plain.dialect, plain.packed), (Dialect::StatsD, false));
    let mine = [("STATSD_IMPLEMENTATION", "statsd"), ("DASHCAM_STATSD_DIALECT", "dogstatsd")];
    let both = [[("STATSD_ADDR", "h:9")].as_slice(), &mine].concat();
    assert_eq!(fine(&both).dialect, Dialect::DogStatsD);
}

#[test]
fn sizes_and_intervals() {
    let base = ("STATSD_ADDR", "h:9");
    assert_eq!(fine(&[base, ("STATSD_MAX_PACKET_SIZE", "8932")]).packet_bytes, 8932);
    assert_eq!(fine(&[base, ("DASHCAM_STATSD_QUEUE", "128KiB")]).queue_bytes, 128 << 10);
    let seconds = |text| fine(&[base, ("STATSD_BATCH_STATISTICS_INTERVAL", text)]).self_every;
    assert_eq!(seconds("0"), None);
    assert_eq!(seconds("2.5"), Some(Duration::from_millis(2500)));
}

#[test]
fn a_wrong_value_turns_the_sink_off_and_says_so() {
    let cases = [
        ("DASHCAM_STATSD", "localhost:8125", "udp://HOST:PORT"),
        ("DASHCAM_STATSD_DIALECT", "influx", "dogstatsd (or datadog) or statsd"),
        ("STATSD_MAX_PACKET_SIZE", "big", "64 to 65507"),
        ("STATSD_MAX_PACKET_SIZE", "10", "64 to 65507"),
        ("DASHCAM_STATSD_QUEUE", "1", "64KiB to 1GiB"),
        ("DASHCAM_STATSD_SELF", "sometimes", "0 to 86400"),
        ("DASHCAM_STATSD_SELF", "nan", "0 to 86400"),
        ("DASHCAM_STATSD_PACKED", "perhaps", "on or off"),
        ("DD_DOGSTATSD_PORT", "http", "1 to 65535"),
        ("DD_ORIGIN_DETECTION_ENABLED", "2", "on or off"),
    ];
    for (name, value, wanted) in cases {
        let base = match name {
            "DD_DOGSTATSD_PORT" => ("DD_AGENT_HOST", "a"),
            _ => ("STATSD_ADDR", "h:9"),
        };
        let Loaded { config, complaints } = loaded(&[base, (name, value)]);
        assert_eq!(config.target, Target::Off, "{name}={value}");
        let said = complaints.join("\n");
        let all = [name, &format!("found {value:?}"), wanted, "no metrics are sent"];
        assert!(all.iter().all(|part| said.contains(part)), "{said}");
    }
}
