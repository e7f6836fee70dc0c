//! `dashcam sql`: hands the query to `dashcam.sql` of the Python package that this command belongs
//! to.

use std::path::Path;
use std::process::ExitCode;

use crate::processes::python;
use crate::read::newest;

/// Answers `query` from the capture at `path`, or the newest in that folder; `form` is table, json
/// or csv.
pub fn sql(path: &Path, query: &str, form: &str) -> ExitCode {
    let file = match path.is_dir() {
        true => match newest(path) {
            Ok(file) => file,
            Err(code) => return code,
        },
        false => path.to_owned(),
    };
    let arguments = [form.into(), file.into(), query.into()];
    python::call("dashcam.sql", "main", &arguments).unwrap_or_else(|| {
        let export = format!(
            "pip install 'dashcam[sql]'; or ask another engine: dashcam export {} --to parquet -o \
             FOLDER",
            path.display()
        );
        python::missing("sql", &export)
    })
}
