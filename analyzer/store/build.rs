//! `sqlx::migrate!` embeds the folders, but does not see files that are added to them.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations/sqlite");
    println!("cargo:rerun-if-changed=../../migrations/postgres");
}
