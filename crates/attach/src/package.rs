//! The folder with the package `dashcam`, as the process sees it.
//!
//! How it works: the process loads the package from its own file system, so that is searched, in
//! the order in which its own Python would: folders of installed packages that it has files mapped
//! from, its virtual environment, PYTHONPATH, the folders of its interpreter; then the folder that
//! this command was installed into. The package has a native module for each version of CPython.
//!
//! What it promises: a folder that is returned holds a module for this version, and the process's
//! user may read it. Else the refusal lists the folders that were searched. What is missing on
//! purpose: running the process's Python to ask it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::interpreter::Interpreter;
use crate::refusal::{refused, Refusal};
use crate::target::Target;

/// The folder for this process and version. `own`: further folders, of this command.
pub fn find(
    target: &Target,
    interpreter: Interpreter,
    maps: &[u8],
    own: &[PathBuf],
) -> Result<PathBuf, Refusal> {
    let mut folders = of_target(target, interpreter, maps);
    folders.extend(own.iter().cloned());
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut others = Vec::new();
    for folder in folders {
        if seen.contains(&folder) {
            continue;
        }
        match module_in(target, &folder, interpreter.minor) {
            Ok(true) => return Ok(folder),
            Ok(false) => (),
            Err(found) => others.push(format!("{}: {found}", folder.display())),
        }
        seen.push(folder);
    }
    let found = match others.is_empty() {
        false => others.join("; "),
        true => {
            let seen: Vec<String> =
                seen.iter().map(|folder| folder.display().to_string()).collect();
            format!("no package dashcam in {}", seen.join(", "))
        }
    };
    Err(refused(
        "package for the process",
        found,
        format!("dashcam for CPython {}, readable by user {}", interpreter.version(), target.user()),
        "pip install dashcam into the environment of the service (in a container: into its image), \
         or name a folder with DASHCAM_PACKAGE_DIR",
    ))
}

/// Folders of installed packages that the process's Python probably searches.
fn of_target(target: &Target, interpreter: Interpreter, maps: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mapped = sys::mapped::files(maps).filter_map(|line| {
        let path = std::str::from_utf8(line.path).ok()?;
        let names = ["/site-packages/", "/dist-packages/"];
        let end = names.iter().find_map(|name| Some(path.find(name)? + name.len() - 1))?;
        Some(PathBuf::from(&path[..end]))
    });
    found.extend(mapped);
    let below = |prefix: &Path| {
        let library = format!("lib/python{}", interpreter.version());
        let folders =
            ["site-packages", "dist-packages"].map(|name| prefix.join(&library).join(name));
        folders.into_iter().chain([prefix.join("lib/python3/dist-packages")])
    };
    if let Some(environment) = target.variable("VIRTUAL_ENV") {
        found.extend(below(Path::new(environment)));
    }
    found.extend(prefix_of(target).iter().flat_map(|prefix| below(prefix)));
    let path = target.variable("PYTHONPATH").unwrap_or_default();
    found.extend(path.split(':').filter(|path| path.starts_with('/')).map(PathBuf::from));
    if let Ok(program) = fs::read_link(target.folder.join("exe")) {
        found.extend(program.ancestors().nth(2).into_iter().flat_map(below));
    }
    found.extend(below(Path::new("/usr/local")));
    found.retain(|folder| folder.is_absolute());
    found
}

/// The folder above the one in which the process was started from: that of a virtual environment.
fn prefix_of(target: &Target) -> Option<PathBuf> {
    let program = Path::new(target.words.first()?);
    let folder = program.parent().filter(|folder| *folder != Path::new(""))?;
    let absolute = match folder.is_absolute() {
        true => folder.to_owned(),
        false => fs::read_link(target.folder.join("cwd")).ok()?.join(folder),
    };
    absolute.parent().map(Path::to_owned)
}

/// Whether a folder has the package for this version. Err: it has it, and it does not serve.
fn module_in(target: &Target, folder: &Path, minor: u32) -> Result<bool, String> {
    let package = target.outside(folder).join("dashcam");
    let Ok(entries) = fs::read_dir(&package) else { return Ok(false) };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<String> = names.collect();
    let modules =
        || names.iter().filter(|name| name.starts_with("_native.") && name.ends_with(".so"));
    if !names.iter().any(|name| name == "__init__.py") {
        return Ok(false);
    }
    let tag = format!("cpython-3{minor}-");
    let fits = |name: &&String| name.contains(&tag) || name.as_str() == "_native.so";
    let Some(module) = modules().find(fits) else {
        let others: Vec<&str> = modules().map(String::as_str).collect();
        return match others.is_empty() {
            true => Ok(false),
            false => Err(others.join(", ")),
        };
    };
    let files = [package.join(module), package.join("__init__.py")];
    match files.iter().all(|file| is_readable(target, file)) {
        true => Ok(true),
        false => Err(format!("{module}, which user {} may not read", target.user())),
    }
}

/// Whether the process's user may read a file, by its mode and those of the folders above it.
fn is_readable(target: &Target, file: &Path) -> bool {
    const READ: u32 = 4;
    const SEARCH: u32 = 1;
    let inside = file.ancestors().take_while(|path| *path != target.folder.join("root"));
    inside.enumerate().all(|(depth, path)| {
        let wanted = if depth == 0 { READ } else { SEARCH };
        fs::metadata(path).is_ok_and(|found| may(target, &found, wanted))
    })
}

fn may(target: &Target, found: &fs::Metadata, wanted: u32) -> bool {
    let shift = match target.user() {
        0 => return true,
        user if user == found.uid() => 6,
        _ if target.groups.contains(&found.gid()) => 3,
        _ => 0,
    };
    found.mode() >> shift & wanted == wanted
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{symlink, PermissionsExt};

    use testkit::Folder;

    use super::*;

    const INTERPRETER: Interpreter =
        Interpreter { runtime: 0, minor: 12, version_hex: 0, run_string: 0 };

    /// A process of another user, whose file system is a folder of this test.
    struct Laid {
        folder: Folder,
        target: Target,
    }

    impl Laid {
        fn new(name: &str) -> Laid {
            let folder = Folder::new(name);
            let proc = folder.path().join("proc/7");
            fs::create_dir_all(&proc).expect("a folder");
            fs::create_dir(folder.path().join("root")).expect("a folder");
            symlink(folder.path().join("root"), proc.join("root")).expect("a link");
            let user = 4_000_000;
            let target = Target { pid: 7, folder: proc, users: [user; 3], ..Target::default() };
            Laid { folder, target }
        }

        fn install(&self, site: &str, module: &str) -> PathBuf {
            let package = self.folder.path().join("root").join(site).join("dashcam");
            fs::create_dir_all(&package).expect("a folder");
            for name in ["__init__.py", module] {
                fs::write(package.join(name), "").expect("a file");
            }
            package
        }

        fn find(&self, maps: &str, own: &[PathBuf]) -> Result<PathBuf, String> {
            let found = find(&self.target, INTERPRETER, maps.as_bytes(), own);
            found.map_err(|refusal| refusal.to_string())
        }
    }

    #[test]
    fn the_environment_that_the_process_has_files_mapped_from_comes_first() {
        let laid = Laid::new("package-mapped");
        laid.install(
            "srv/venv/lib/python3.12/site-packages",
            "_native.cpython-312-x86_64-linux-gnu.so",
        );
        laid.install("opt/own", "_native.cpython-312-x86_64-linux-gnu.so");
        let maps = "10-20 r-xp 00000000 08:01 9   /srv/venv/lib/python3.12/site-packages/x/y.so\n";
        let found = laid.find(maps, &[PathBuf::from("/opt/own")]).expect("installed");
        assert_eq!(found, Path::new("/srv/venv/lib/python3.12/site-packages"));
        let found = laid.find("", &[PathBuf::from("/opt/own")]).expect("installed");
        assert_eq!(found, Path::new("/opt/own"));
    }

    #[test]
    fn a_virtual_environment_is_found_by_the_command_line() {
        let mut laid = Laid::new("package-words");
        laid.install(
            "srv/venv/lib/python3.12/site-packages",
            "_native.cpython-312-x86_64-linux-gnu.so",
        );
        laid.target.words = vec!["/srv/venv/bin/python".to_owned(), "app.py".to_owned()];
        let found = laid.find("", &[]).expect("installed");
        assert_eq!(found, Path::new("/srv/venv/lib/python3.12/site-packages"));
    }

    #[test]
    fn no_package_another_versions_and_one_that_cannot_be_read_are_refused() {
        let laid = Laid::new("package-none");
        let nothing = laid.find("", &[]).expect_err("not installed");
        assert!(
            nothing.starts_with("package for the process: found no package dashcam in /usr/local")
        );
        let own = [PathBuf::from("/opt/own")];
        let package = laid.install("opt/own", "_native.cpython-311-x86_64-linux-gnu.so");
        let other = laid.find("", &own).expect_err("for another version");
        assert!(
            other.contains(
                "found /opt/own: _native.cpython-311-x86_64-linux-gnu.so, wanted dashcam \
                            for CPython 3.12"
            ),
            "{other}"
        );
        let module = "_native.cpython-312-x86_64-linux-gnu.so";
        fs::write(package.join(module), "").expect("a file");
        assert!(laid.find("", &own).is_ok());
        let secret = fs::Permissions::from_mode(0o600);
        fs::set_permissions(package.join(module), secret).expect("a file of ours");
        let hidden = laid.find("", &own).expect_err("not readable");
        assert!(hidden.contains("which user 4000000 may not read"), "{hidden}");
    }
}
