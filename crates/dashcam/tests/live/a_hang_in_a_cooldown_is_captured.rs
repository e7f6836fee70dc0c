//! A request that hangs is captured though it became slow in a cooldown, or before its percentile
//! was over the limit.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The reasons of the captures in `out`, oldest first, once there are `count` or a while has
/// passed.
fn reasons(out: &Path, count: usize) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let entries = std::fs::read_dir(out).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|e| e.path()).collect();
        files.retain(|path| path.extension().is_some_and(|x| x == "dashcam"));
        if files.len() >= count || Instant::now() > until {
            files.sort();
            let open = |path: &PathBuf| capture::read::Capture::open(path).expect("a capture");
            return files.iter().map(|p| open(p).meta.reason).collect();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn takes(name: &str, ms: u64) {
    let mut request = dashcam::request!("a request");
    request.rename(name);
    std::thread::sleep(Duration::from_millis(ms));
}

fn suppressed() -> u64 {
    let status = dashcam::status_json();
    let (_, behind) = status.split_once(r#""firings_suppressed":"#).expect("a counter");
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// One test: there is one recorder a process.
#[test]
fn by_a_time_and_by_a_percentile() {
    let out = std::env::temp_dir().join(format!("dashcam-hang-{}", std::process::id()));
    let config = dashcam::Config::new().memory("4MiB").out(out.display()).control("off");
    let config = config.slow("hang>30ms,first>30ms,p50(job)>30ms/60s").at_exit("never");
    dashcam::start(config.post("1ms").cooldown("1s")).expect("starts");

    // Past its limit, but so far its percentile is not over it.
    let job = dashcam::request!("job");
    takes("first", 60);
    assert_eq!(reasons(&out, 1).len(), 1);
    // In the cooldown of that capture one hangs, and jobs become slow, which end in it.
    let hang = dashcam::request!("hang");
    let until = Instant::now() + Duration::from_millis(500);
    while suppressed() == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(suppressed(), 1, "the hang, once");
    let found = reasons(&out, 2);
    assert!(
        found.len() == 2 && found[1].starts_with("slow: a request was still running"),
        "{found:?}"
    );
    assert!(found[1].ends_with(": hang"), "{found:?}");
    // Its end is no news, and was never counted a second time.
    drop(hang);

    // In the cooldown of the one before.
    std::thread::scope(|scope| {
        (0..20).for_each(|_| drop(scope.spawn(|| takes("job", 60))));
    });
    let found = reasons(&out, 3);
    assert!(
        found.len() == 3 && found[2].starts_with("slow: a request was still running"),
        "{found:?}"
    );
    assert!(found[2].ends_with(": job"), "{found:?}");
    drop(job);
    dashcam::stop();
    testkit::remove(&out);
}
