//! Prints the part of docs/tables.md that lists tables and columns.

fn main() {
    print!("{}", tables::doc::markdown());
}
