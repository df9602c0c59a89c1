//! `sqlx::migrate!` embeds the folder, but does not see files that are added to it.

fn main() {
    println!("cargo:rerun-if-changed=../migrations/sqlite");
}
