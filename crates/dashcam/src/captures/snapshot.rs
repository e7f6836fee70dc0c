//! The black box -> a capture file. No thread is stopped, and a CPU that other threads want is
//! given up.
//!
//! A capture gets its name when it is whole, so that nobody ever reads half of one, and a process
//! that is killed meanwhile leaves nothing (`sys::whole_file`). Other writers into the same folder
//! need not know of us: a name that is taken is passed over, and caps of count and size are kept by
//! removing the oldest captures of this service. It may be read by the users that the folder is
//! open to; a folder that is made here is the service's user's alone (`sys::readers`).

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use capture::write::CaptureWriter;
use format::region::losses;
use ring::{BlockCopy, Region};
use settings::Config;
use sys::readers;
use sys::turns::Turns;
use sys::whole_file::WholeFile;

/// Writes a capture reaching back to `since_ns`. Errors: the folder or file cannot be written.
pub fn write(
    config: &Config,
    region: &Region,
    meta: &str,
    since_ns: u64,
    number: u64,
) -> io::Result<PathBuf> {
    readers::make_folder(&config.out)?;
    let time = utc(sys::clock::epoch_ns());
    let target = config.out.join(name(&config.service, &time, number));
    let file = WholeFile::create_with(&target, readers::file_mode(&config.out))?;
    let path = give_name(config, fill(file, region, meta, since_ns)?, &time, number)?;
    keep_caps(config, region, &path);
    Ok(path)
}

fn name(service: &str, time: &str, number: u64) -> String {
    format!("{service}-{time}-{}-{number}{ENDING}", std::process::id())
}

/// Numbers begin at 1 with each start, and another container may have a process with our number: a
/// name that was taken in the same second is passed over.
fn give_name(config: &Config, mut file: WholeFile, time: &str, number: u64) -> io::Result<PathBuf> {
    for number in (number..).take(MOST_NAMES) {
        let path = config.out.join(name(&config.service, time, number));
        match file.keep_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            kept => return kept.map(|()| path),
        }
    }
    let tried = format!("{MOST_NAMES} names of this second are taken in {}", config.out.display());
    Err(io::Error::new(io::ErrorKind::AlreadyExists, tried))
}

/// Names that are tried: a file system that calls each of them taken must not occupy
/// `dashcam-capture` for good.
const MOST_NAMES: usize = 1000;

/// How a capture's name ends.
const ENDING: &str = ".dashcam";
/// The form of its time; 0 stands for any digit.
const TIME: &[u8] = b"0000-00-00T00-00-00";

/// Whether a file's name is what `name` gives to a capture of this service: a stream, a recovered
/// box, or a file that a user named is not ours to remove.
fn is_capture_of(service: &str, name: &str) -> bool {
    let own = name.strip_prefix(service).and_then(|name| name.strip_prefix('-'));
    let Some(rest) = own.and_then(|name| name.strip_suffix(ENDING)) else {
        return false;
    };
    let Some((time, rest)) = rest.as_bytes().split_at_checked(TIME.len()) else {
        return false;
    };
    let fits = |(found, form): (&u8, &u8)| match form {
        b'0' => found.is_ascii_digit(),
        form => found == form,
    };
    let is_number = |part: &&[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    // Nothing, the process, the number.
    let mut parts = rest.split(|byte| *byte == b'-');
    time.iter().zip(TIME).all(fits)
        && parts.next().is_some_and(<[u8]>::is_empty)
        && parts.by_ref().take(2).filter(is_number).count() == 2
        && parts.next().is_none()
}

/// A file written in parts, between which other threads get their turn.
struct Paced {
    file: WholeFile,
    turns: Turns,
}

/// Bytes written in one go: some 30 us.
const WRITE_BYTES: usize = 64 * 1024;
/// A capture is later by at most this, so that the service's threads need not wait for it.
const MOST_REST_NS: u64 = 1_000_000_000;

impl Write for Paced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(&bytes[..bytes.len().min(WRITE_BYTES)]);
        self.turns.rest();
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn fill(file: WholeFile, region: &Region, meta: &str, since_ns: u64) -> io::Result<WholeFile> {
    let file = Paced { file, turns: Turns::new(MOST_REST_NS) };
    let file = BufWriter::with_capacity(WRITE_BYTES, file);
    let mut writer = CaptureWriter::new(file, meta)?;
    let mut buffer = BlockCopy::default();
    // Blocks before tables: a record may name what was interned a moment before it, so tables
    // copied afterwards hold every id the blocks refer to. In the file tables come first, so the
    // copy of the blocks is written behind them: tables are append-only, and those copied first
    // would miss ids. Hence twice: once for readers of cut-off files, once complete at the end.
    writer.tables(&region.copy_tables()?)?;
    writer.open_spans(&region.copy_open())?;
    let overwritten =
        region.copy_blocks(since_ns, &mut buffer, |block| writer.block(block.words()))?;
    writer.tables(&region.copy_tables()?)?;
    let buffered = writer.finish(overwritten)?;
    Ok(buffered.into_inner().map_err(io::IntoInnerError::into_error)?.file)
}

/// Removes the oldest captures of this service in its folder until count and size fit. Only files
/// that bear such a capture's name are touched; a file that another process removes meanwhile is no
/// error.
fn keep_caps(config: &Config, region: &Region, newest: &Path) {
    let Ok(entries) = fs::read_dir(&config.out) else {
        return;
    };
    let mut captures: Vec<(std::time::SystemTime, u64, PathBuf)> = entries
        .flatten()
        .filter(|e| e.file_name().to_str().is_some_and(|n| is_capture_of(&config.service, n)))
        .filter_map(|e| {
            let meta = e.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((meta.modified().ok()?, meta.len(), e.path()))
        })
        .collect();
    captures.sort();
    let mut count = captures.len();
    let mut bytes: u64 = captures.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in captures {
        if (count as u64 <= config.keep && bytes <= config.keep_bytes) || path == newest {
            break;
        }
        if fs::remove_file(&path).is_ok() {
            region.lose(losses::CAPTURES_REMOVED, 1);
        }
        count -= 1;
        bytes -= size;
    }
}

/// `2026-11-21T10-14-03` of a Unix epoch time.
pub fn utc(epoch_ns: u64) -> String {
    let seconds = epoch_ns / 1_000_000_000;
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days as i64);
    let (h, m, s) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}-{m:02}-{s:02}")
}

/// `2026-11-21T10:14:03Z` of a Unix epoch time.
pub fn utc_to_read(epoch_ns: u64) -> String {
    let utc = utc(epoch_ns);
    let (day, clock) = utc.split_at(utc.find('T').unwrap_or(utc.len()));
    format!("{day}{}Z", clock.replace('-', ":"))
}

/// Days since 1970-01-01 -> year, month, day (H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn civil(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
    let month = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
    (yoe + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(test: &str, keep: u64) -> Config {
        let out = std::env::temp_dir().join(format!("dashcam-{test}-{}", std::process::id()));
        fs::create_dir_all(&out).expect("a folder");
        Config { out, service: "s".to_owned(), keep, keep_bytes: 1 << 30, ..Config::default() }
    }

    fn region() -> Region {
        Region::in_process(4 << 20, std::process::id(), "a test").expect("memory")
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<String> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// As processes of the same number in several containers do.
    #[test]
    fn those_who_want_one_name_at_once_get_one_each() {
        let (config, region) = (service("names", 50), region());
        let together = std::sync::Barrier::new(8);
        let write = || {
            together.wait();
            write(&config, &region, "{}", 0, 1).expect("written")
        };
        let mut paths: Vec<PathBuf> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(write)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        paths.sort();
        paths.dedup();
        assert_eq!(names(&config.out).len(), 8, "{:?}", names(&config.out));
        assert_eq!(paths.len(), 8);
        assert!(paths.iter().all(|path| path.is_file()), "{paths:?}");
        fs::remove_dir_all(&config.out).expect("ours");
    }

    #[test]
    fn what_others_named_or_another_service_made_is_never_removed() {
        let (config, region) = (service("caps", 2), region());
        let others = [
            "incident.dashcam",
            "s-2026-11-21T10-14-03-4711-1-copy.dashcam",
            "s-2026-11-21T10-14-03-4711.dashcam",
            "s-2026-11-21-4711-1.dashcam",
            "s-api-2026-11-21T10-14-03-4711-1.dashcam",
            "t-2026-11-21T10-14-03-4711-1.dashcam",
        ];
        let own = "s-2026-11-21T10-14-03-4711-1.dashcam";
        for name in others.iter().chain([&own]) {
            fs::write(config.out.join(name), "old").expect("written");
        }
        for number in 1..=3 {
            write(&config, &region, "{}", 0, number).expect("written");
        }
        let left = names(&config.out);
        assert!(others.iter().all(|name| left.iter().any(|l| l == name)), "{left:?}");
        assert!(!left.iter().any(|name| name == own), "{left:?}");
        assert_eq!(left.len(), others.len() + 2, "{left:?}");
        fs::remove_dir_all(&config.out).expect("ours");
    }

    /// Captures 1 to 6, of 100 to 600 bytes, the first the oldest; what is left of them.
    fn left_of_six(keep: u64, keep_bytes: u64, newest: usize) -> Vec<usize> {
        let config = Config { keep_bytes, ..service(&format!("{keep}-{keep_bytes}"), keep) };
        let path = |n: usize| config.out.join(name("s", "2026-11-21T10-14-03", n as u64));
        for n in 1..=6 {
            let file = fs::File::create(path(n)).expect("created");
            file.set_len(n as u64 * 100).expect("grown");
            let written = std::time::UNIX_EPOCH + std::time::Duration::from_secs(n as u64);
            file.set_modified(written).expect("dated");
        }
        // Neither counted nor removed, though it is the oldest and larger than all of them.
        let other = config.out.join("s.captures.log");
        fs::File::create(&other).expect("created").set_len(1 << 20).expect("grown");
        let region = region();
        keep_caps(&config, &region, &path(newest));
        let left: Vec<usize> = (1..=6).filter(|n| path(*n).exists()).collect();
        assert!(other.exists());
        assert_eq!(region.losses()[losses::CAPTURES_REMOVED], 6 - left.len() as u64);
        fs::remove_dir_all(&config.out).expect("ours");
        left
    }

    #[test]
    fn the_oldest_go_until_count_and_bytes_fit() {
        assert_eq!(left_of_six(6, 2100, 6), [1, 2, 3, 4, 5, 6], "2100 bytes in six");
        assert_eq!(left_of_six(6, 2099, 6), [2, 3, 4, 5, 6]);
        assert_eq!(left_of_six(6, 1500, 6), [4, 5, 6], "1800 without two would be too many");
        assert_eq!(left_of_six(2, 1500, 6), [5, 6], "of both caps the narrower");
        assert_eq!(left_of_six(5, 1100, 6), [5, 6], "and here the other");
        assert_eq!(left_of_six(6, 10, 6), [6], "the newest stays, however large");
    }

    #[test]
    fn a_capture_is_the_services_own_unless_its_folder_is_open() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let (mut config, region) = (service("readers", 9), region());
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o7777;
        let made = config.out.clone();
        config.out = made.join("made/here");
        let first = write(&config, &region, "{}", 0, 1).expect("written");
        assert_eq!((mode(&config.out), mode(&first)), (0o700, 0o600));
        // The operator opens it, for good, to a group.
        fs::set_permissions(&config.out, fs::Permissions::from_mode(0o2750)).expect("ours");
        let second = write(&config, &region, "{}", 0, 2).expect("written");
        assert_eq!((mode(&config.out), mode(&second)), (0o2750, 0o640));
        fs::remove_dir_all(&made).expect("ours");
    }

    /// As when its process got no CPU for a while, and others wrote theirs meanwhile.
    #[test]
    fn one_that_was_long_in_writing_is_the_newest_when_it_has_its_name() {
        let (config, region) = (service("late", 3), region());
        let time = "2026-11-21T10-14-03";
        let file = WholeFile::create(&config.out.join(name("s", time, 9))).expect("created");
        let late = fill(file, &region, "{}", 0).expect("filled");
        // The kernel's time of a file goes by its ticks.
        std::thread::sleep(std::time::Duration::from_millis(20));
        (1..=3).for_each(|n| drop(write(&config, &region, "{}", 0, n).expect("written")));
        let late = give_name(&config, late, time, 9).expect("named");
        keep_caps(&config, &region, &late);
        assert!(late.is_file());
        assert_eq!(names(&config.out).len(), 3, "{:?}", names(&config.out));
        fs::remove_dir_all(&config.out).expect("ours");
    }

    #[test]
    fn names_carry_the_utc_time() {
        assert_eq!(utc(0), "1970-01-01T00-00-00");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29T00-00-00");
        assert_eq!(utc(1_795_256_043_000_000_000), "2026-11-21T10-14-03");
    }
}
