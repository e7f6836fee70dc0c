//! A cause whose capture could not be written is captured when it can be; and signals that come
//! while a capture waits are one wish.

use std::time::{Duration, Instant};

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < end, "{what}: {}", dashcam::status_json());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One test: there is one recorder a process.
#[test]
fn a_failed_write_and_many_signals_at_once() {
    let out = std::env::temp_dir().join(format!("dashcam-again-{}", std::process::id()));
    std::fs::write(&out, "a file where the folder should be").expect("written");
    let config = dashcam::Config::new().memory("4MiB").out(out.display()).control("off");
    let config = config.slow("30ms").at_exit("never").signal("USR2").post("1ms").cooldown("1h");
    dashcam::start(config.per_day(1).repeat_after("1h")).expect("starts");
    let slow = || {
        let _request = dashcam::request!("job");
        std::thread::sleep(Duration::from_millis(50));
    };
    slow();
    until("it fails", || dashcam::status_json().contains(r#""captures_failed":1"#));
    std::fs::remove_file(&out).expect("ours");
    let captures = || {
        let entries = std::fs::read_dir(&out).into_iter().flatten().flatten().map(|e| e.path());
        entries.filter(|path| path.extension().is_some_and(|x| x == "dashcam")).count()
    };
    until("it is captured", || {
        slow();
        captures() == 1
    });

    // Jobs that occupy `dashcam-capture` while signals come.
    std::thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| dashcam::snap("busy").expect("written"));
        }
        std::thread::sleep(Duration::from_millis(20));
        for _ in 0..10 {
            // SAFETY: the signal has a handler.
            assert_eq!(unsafe { libc::raise(libc::SIGUSR2) }, 0);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    dashcam::stop();
    let made = captures() - 31;
    assert!((1..=5).contains(&made), "{made} captures for 10 signals");
    testkit::remove(&out);
}
